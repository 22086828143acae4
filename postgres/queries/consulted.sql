-- What the pending events of a type have consulted, as far as it has a calendar in an earlier release than the given one: each text once and in order.
--   @type text · @names text[] (of calendars) · @releases text[] (of each)
-- A text is the calendars with their releases, a space, and days. The first search takes one step in the index for each list of calendars, and the second
-- one for each text of a list with an earlier release, however many events there are. Locks nothing. Only an unnest without a schema can have two arrays.
WITH RECURSIVE lists (named) AS (
    SELECT pg_catalog.split_part(min(q.consulted), ' '::text, 1) FROM :"schema".queue q WHERE q.event_type = @type::text AND q.consulted IS NOT NULL
    UNION ALL
    SELECT (SELECT pg_catalog.split_part(min(q.consulted), ' '::text, 1) FROM :"schema".queue q
        WHERE q.event_type = @type::text AND q.consulted > lists.named || '!'::text) -- which comes after the space, and before all that a list can have
    FROM lists
    WHERE lists.named IS NOT NULL
), texts (named, consulted) AS (
    SELECT l.named, (SELECT min(q.consulted) FROM :"schema".queue q WHERE q.event_type = @type::text AND q.consulted > l.named || ' '::text)
    FROM lists l
    WHERE EXISTS (
        SELECT FROM unnest(@names::text[], @releases::text[]) AS known (name, release)
        JOIN pg_catalog.unnest(pg_catalog.string_to_array(l.named, ','::text)) AS one (stamp)
            ON pg_catalog.split_part(one.stamp, '@'::text, 1) COLLATE "C" = known.name AND pg_catalog.split_part(one.stamp, '@'::text, 2) COLLATE "C" < known.release)
    UNION ALL
    SELECT t.named, (SELECT min(q.consulted) FROM :"schema".queue q
        WHERE q.event_type = @type::text AND q.consulted > t.consulted AND q.consulted < t.named || '!'::text)
    FROM texts t
    WHERE t.consulted IS NOT NULL
)
SELECT t.consulted FROM texts t WHERE t.consulted IS NOT NULL ORDER BY t.consulted
