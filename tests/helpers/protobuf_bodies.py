"""Request bodies in protobuf, as k8s.io/apimachinery v0.36.3 (serializer/protobuf) writes them."""

from typing import Any, Final

DEFINITION: Final = bytes.fromhex(
    "6b3873000a330a17617069657874656e73696f6e732e6b38732e696f2f76311218437573746f6d5265736f757263"
    "65446566696e6974696f6e12d6060a230a13776964676574732e6578616d706c652e636f6d12001a0022002a0032"
    "003800420012a0060a0b6578616d706c652e636f6d1a150a0777696467657473120022065769646765742a00220a"
    "4e616d657370616365643aeb050a0276311001180122da050ad7050a00120022002a066f626a65637432003a0050"
    "0060007a00900100ea01420a0466726565123a0a00120022002a066f626a65637432003a0042110a0f7b2261223a"
    "7b2262223a5b315d7d7d500060007a00900100a80200b00201b80200c00200ea01590a066c6162656c73124f0a00"
    "120022002a066f626a65637432003a00500060007a00900100f20128080112240a00120022002a06737472696e67"
    "32003a00500060007a00900100a80200b80200c00200a80200b80200c00200ea01310a046f70656e12290a001200"
    "22002a066f626a65637432003a00500060007a00900100f201020801a80200b80200c00200ea0199010a05706172"
    "7473128f010a00120022002a05617272617932003a00500060007a00900100c2015c0a5a0a00120022002a066f62"
    "6a65637432003a00500060007a00900100ba01046e616d65ea012c0a046e616d6512240a00120022002a06737472"
    "696e6732003a00500060007a00900100a80200b80200c00200a80200b80200c00200a80200b80200c00200ca0204"
    "6e616d65d202036d6170ea01260a04706f7274121e0a00120022002a0032003a00500060007a00900100a80200b8"
    "0200c00201ea013f0a05736861726512360a00120022002a066e756d62657232003a004900000000000023405000"
    "59000000000000f03f60007a00900100a80200b80200c00200ea015b0a0473697a6512530a00120022002a07696e"
    "746567657232003a0042030a0133490000000000002240500059000000000000f03f60007a00900100a201030a01"
    "31a201030a0133a201050a03227822a20100a80200b80200c00200ea01540a0474616773124c0a00120022002a05"
    "617272617932003a00500060007a00900100c201260a240a00120022002a06737472696e6732003a00500060007a"
    "00900100a80200b80200c00200a80200b80200c00200a80200b80200c00200e2021e0a0d73656c662e73697a6520"
    "3e20301209746f6f20736d616c6c1a002a002a020a00380050001a0c12080a00120022002a0020001a002200"
)
#: What the same program prints as JSON, without the empty status.
DEFINITION_OBJECT: Final[dict[str, Any]] = {
    "kind": "CustomResourceDefinition",
    "apiVersion": "apiextensions.k8s.io/v1",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "names": {"plural": "widgets", "kind": "Widget"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "free": {
                                "type": "object",
                                "default": {"a": {"b": [1]}},
                                "x-kubernetes-preserve-unknown-fields": True,
                            },
                            "labels": {
                                "type": "object",
                                "additionalProperties": {"type": "string"},
                            },
                            "open": {"type": "object", "additionalProperties": True},
                            "parts": {
                                "type": "array",
                                "items": {
                                    "type": "object",
                                    "required": ["name"],
                                    "properties": {"name": {"type": "string"}},
                                },
                                "x-kubernetes-list-map-keys": ["name"],
                                "x-kubernetes-list-type": "map",
                            },
                            "port": {"x-kubernetes-int-or-string": True},
                            "share": {"type": "number", "maximum": 9.5, "minimum": 1},
                            "size": {
                                "type": "integer",
                                "default": 3,
                                "maximum": 9,
                                "minimum": 1,
                                "enum": [1, 3, "x", None],
                            },
                            "tags": {"type": "array", "items": {"type": "string"}},
                        },
                        "x-kubernetes-validations": [
                            {"rule": "self.size > 0", "message": "too small"}
                        ],
                    }
                },
                "subresources": {"status": {}},
            }
        ],
    },
}
#: DeleteOptions of the version apiextensions.k8s.io/v1, with propagationPolicy Background.
DELETE_OPTIONS: Final = bytes.fromhex(
    "6b3873000a280a17617069657874656e73696f6e732e6b38732e696f2f7631120d44656c6574654f7074696f6e73"
    "120c220a4261636b67726f756e641a002200"
)
