"""The grammar of expressions: tokens, tree, parser, macros, and the places of problems."""
