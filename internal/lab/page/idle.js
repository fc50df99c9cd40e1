// Whether something is under way, for everyone who waits for it: <body data-idle="true|false">.

let busy = 0;

const show = () => {
  document.body.dataset.idle = String(busy === 0);
};

// during marks the page as busy until the promise of f() is settled.
export async function during(f) {
  busy++;
  show();
  try {
    return await f();
  } finally {
    busy--;
    show();
  }
}
