"""The command line, feature gates and log of ``mooring run``: those of kube-scheduler.

``flags.parse`` makes ``Options`` of the words, ``options.effective`` the configuration in effect,
``klog.configure`` writes the log. Nothing here talks to a cluster.

Source: k8s.io/component-base.
"""
