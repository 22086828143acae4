-- Store the limits of a lane, unless it has the same.
--   @name text · @rate float8, @burst integer, @places integer, @daily integer, @weight integer (NULL without that limit)
INSERT INTO :"schema".lanes AS l (name, rate, burst, places, daily, weight)
VALUES (@name, @rate::float8, @burst::integer, @places::integer, @daily::integer, @weight::integer)
ON CONFLICT (name) DO UPDATE
SET (rate, burst, places, daily, weight) = (excluded.rate, excluded.burst, excluded.places, excluded.daily, excluded.weight)
WHERE l.rate IS DISTINCT FROM excluded.rate OR l.burst IS DISTINCT FROM excluded.burst OR l.places IS DISTINCT FROM excluded.places
    OR l.daily IS DISTINCT FROM excluded.daily OR l.weight IS DISTINCT FROM excluded.weight
RETURNING l.name
