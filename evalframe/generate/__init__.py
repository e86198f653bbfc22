"""From rows and adapters to generations: who is called when, what became of it, and the journal that remembers it.

``threads.generate`` is the engine; ``calls`` plans the calls, ``outcomes`` turns replies and failures into records,
``reasoning`` takes thinking out of replies, ``journal`` keeps each finished call on disk, ``progress`` shows them.
"""
