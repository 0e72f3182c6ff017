"""Charts of the results, each with its text alternative: specifications of Vega-Lite, made by Altair."""
