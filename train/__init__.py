"""How the encoder is made: gather public text, teach, distil, quantise, measure. See README.md.

Each step is one command (`python -m train.gather`, and so on). They need more than lorelog does: requirements.txt.
"""
