"""The frontier bound: close to the optimum for any number of mistakes, whatever was released before."""
