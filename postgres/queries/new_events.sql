-- Read the events of users that were created lately, in no particular order.
--   @users uuid[] · @since timestamptz (created then or later)
SELECT :event
FROM :"schema".events e
WHERE e.user_id = ANY (@users::uuid[]) AND e.created_at >= @since::timestamptz
