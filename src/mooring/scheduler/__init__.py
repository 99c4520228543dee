"""The running scheduler: all of ``mooring run`` and ``mooring start`` that schedules.

Start reading at ``schedule_one.py``: the scheduling cycle of one pod. ``binding_cycle.py`` and
``binding_tasks.py`` carry out its result, ``event_handlers.py`` feeds the cache and the queue, and
``service.py`` puts all of it together.
"""
