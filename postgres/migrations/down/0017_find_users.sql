DROP INDEX :"schema".users_full_name;
DROP INDEX :"schema".users_last_name;
DROP INDEX :"schema".users_email;
