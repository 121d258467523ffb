"""Quality on judged sets: the real pipeline beside simple rankings of the same chunks and the same vectors.

    python -m bench.quality --data DIR [--sets a,b] [--vectors DIR] [--json OUT] [--dump FILE]

`sets` reads a set, `layout` writes its documents as the Markdown files a person would have, `pipeline` indexes and asks
them as a person would, `rivals` ranks the same chunks more simply, `calibration` looks at what a hit says of its own
relevance, `vectors` keeps what the model computed from run to run, and `tables` prints. `fit` learns the numbers of the
ranking from `samples` of the sets.
"""
