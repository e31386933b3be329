"""The report an officer can file: one self-contained page made from what a run or an audit wrote."""
