"""A deployment of several regions: intake workers publish, one coordinator decides and sees no count."""
