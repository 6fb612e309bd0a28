"""What a run is given: the request, what is known of the change, the world around, and when it must
end.

Subjects use it; it uses the doors and the words of the domain.
"""
