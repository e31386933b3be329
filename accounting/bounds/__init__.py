"""Upper bounds on the success of any adversary, one file each; the certified bound is their minimum."""
