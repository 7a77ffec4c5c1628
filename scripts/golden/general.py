"""The general operations: element by element, reductions, linear algebra."""

from .calls import Operations

operation = Operations()
