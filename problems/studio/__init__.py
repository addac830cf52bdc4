"""Studio: a local web page to place sensors on a robot and see at once what becomes known.

The server is a small one of our own on ``http.server`` and the page draws the robot as SVG,
projected by a hundred lines of script, and its meshes by a depth buffer of its own.
viser was weighed and left: it would bring a dozen packages and WebGL, its objects have no names
that a keyboard, a screen reader or a browser test can reach, and its web server does not let us
check Host and Origin headers, tokens and sizes of messages ourselves. Here every link and every
sensor is an element of the document: it can be clicked, focused and read out, looks the same
without a graphics card, and nothing is loaded from anywhere.

Who does what: :mod:`.server` refuses what it should and hands messages to a :mod:`.session`,
which holds the sensors and the posture of one page; :mod:`.glance` says within milliseconds
what is determined at that posture; :mod:`.background` asks other processes for what takes
longer: the verdict over many postures, suggestions, the cost of a solve, a search for a cheaper
one, the meshes.
"""
