"""What all processes of a deployment share, and the records on its topics."""
