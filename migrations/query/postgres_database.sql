-- Returns the name of the database.
SELECT current_database()
