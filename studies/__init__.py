"""Studies: experiments of papers, done again with mooring."""
