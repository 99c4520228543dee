"""Admission: the plugins of kube-apiserver that every cluster runs."""

from mooring.apiserver.admission.plugins import PROTECTED_NAMESPACES, Admission

__all__ = ["PROTECTED_NAMESPACES", "Admission"]
