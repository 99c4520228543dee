"""Rules of CustomResourceDefinitions (``x-kubernetes-validations``): ``self`` and ``oldSelf``.

Source: apiextensions-apiserver v0.36.3, pkg/apiserver/schema/cel/{compilation,validation}.go.
Differs: ``self`` and ``oldSelf`` have the type dyn here; with their types a rule is compiled when
its definition is written.
"""

from __future__ import annotations

from typing import Final

from mooring.cel import types
from mooring.cel.attributes import UNSET
from mooring.cel.checker import check
from mooring.cel.cost import CostTracker
from mooring.cel.depth import deep_recursion
from mooring.cel.environment import Environment
from mooring.cel.errors import CompileError, EvaluationError
from mooring.cel.evaluation import compile_tracking
from mooring.cel.library import registry
from mooring.cel.planner import FIRST_SLOT, PlanError, plan
from mooring.cel.syntax.parser import parse
from mooring.cel.syntax.source import Problems, Source
from mooring.cel.validators import validate
from mooring.cel.values import Cancelled, ErrorValue, Fatal, Value

#: The variables of a rule, in the order of their slots.
VARIABLES: Final = ("self", "oldSelf")

#: Bytes of a rule.
MAX_RULE_BYTES: Final = 10 * 1024


class Rule:
    """A compiled rule or message expression.

    Example:
        >>> Rule("self > oldSelf").evaluate(2, 1)
        True

    Raises:
        CompileError: the expression is not valid.
    """

    def __init__(self, expression: str) -> None:
        if len(expression.encode(errors="surrogatepass")) > MAX_RULE_BYTES:
            raise CompileError(f"the rule has more than {MAX_RULE_BYTES} bytes")
        source = Source(expression)
        problems = Problems(source)
        with deep_recursion():
            root = parse(source, problems, Environment.RULE)
            if not problems:
                functions = registry(Environment.RULE)
                variables = dict.fromkeys(VARIABLES, types.DYN)
                check(root, source, problems, variables, functions=functions)
            if not problems:
                validate(root, source, problems)
            if problems:
                raise CompileError(f"compilation failed: {problems}")
            try:
                planned = plan(root, VARIABLES)
            except PlanError as error:
                raise CompileError(f"program instantiation failed: {error}") from None
            self._run = compile_tracking(planned.root)
        #: Whether it compares with the value before an update.
        self.uses_old_self = "oldSelf" in planned.names
        self._unset = [UNSET] * (planned.n_slots - FIRST_SLOT - len(VARIABLES))

    def evaluate(self, value: Value, old: Value, tracker: CostTracker | None = None) -> Value:
        """Returns the result.

        Args:
            value: ``self``.
            old: ``oldSelf``.
            tracker: Adds up the cost, also of an evaluation that fails; None = of no interest.

        Raises:
            EvaluationError: it fails, or costs too much.
        """
        frame = [None, tracker or CostTracker(), value, old, *self._unset]
        try:
            with deep_recursion():
                result = self._run(frame)
        except (Cancelled, Fatal) as failure:
            raise EvaluationError(str(failure)) from None
        if isinstance(result, ErrorValue):
            raise EvaluationError(result.message)
        return result
