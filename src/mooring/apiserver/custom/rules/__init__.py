"""Rules of definitions in CEL (``x-kubernetes-validations``): their validation and evaluation."""
