"""Take a coupon with psycopg2: take.py DSN, the resource and the token in RESOURCE and TOKEN."""

import os
import sys

import psycopg2

resource, token = os.environ["RESOURCE"], os.environ["TOKEN"]
coupon = resource.removeprefix("coupon:")

conn = psycopg2.connect(sys.argv[1])
try:
    with conn, conn.cursor() as cur:  # commits at the end, rolls back on an exception
        if token:
            cur.execute("select fencegate.enter(%s, %s)", (resource, token))
        cur.execute("select stock from coupons where id = %s", (coupon,))
        (stock,) = cur.fetchone()
        cur.execute("update coupons set stock = %s where id = %s", (stock - 1, coupon))
except psycopg2.Error as e:
    sys.exit(f"{e.pgcode}: {e.diag.message_primary}")
finally:
    conn.close()
print(f"taken, {stock - 1} left")
