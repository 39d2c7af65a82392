"""The gate for input: checks of kinds and values, messages, and conversion to arrays.

There are four doors: ``rows.check_fit`` for fits, ``predictions.predict`` for outputs,
``measures.check_measure`` for labels with probabilities, and ``measures.columns_of`` for their
scores and events. Behind the doors, ``arrays`` finds the kind of an input and converts it, and
``dask`` does so on workers. ``labels``, ``logits`` and ``groups`` check values. ``classes`` finds
the class of each column, and ``column_order`` warns of wrong columns. ``parameters`` and
``estimators`` check the arguments of constructors.
"""
