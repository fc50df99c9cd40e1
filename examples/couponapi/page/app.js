"use strict";

// What comes from the server is shown as text, never as markup.

const $ = (id) => document.getElementById(id);
const shown = 100; // receipts at a time

let coupon = "";      // the one on the page
let last = null;      // the last claim: {way, key}
let receipts = [];

function say(text, good) {
  $("said").textContent = text;
  $("said").className = good ? "good" : "bad";
}

// call sends a request; a problem becomes an error with its words.
async function call(method, path, { body, key } = {}) {
  const headers = {};
  if (body) headers["Content-Type"] = "application/json";
  if (key) headers["Idempotency-Key"] = key;
  let resp;
  try {
    resp = await fetch(path, { method, headers, body: body && JSON.stringify(body) });
  } catch {
    throw new Error("no answer: send it again, with the same key");
  }
  const data = await resp.json();
  if (!resp.ok) throw new Error(data.detail ? `${data.title}: ${data.detail}` : data.title);
  return { data, status: resp.status };
}

const at = (rest) => `/coupons/${encodeURIComponent(coupon)}${rest}`;

function element(tag, text) {
  const e = document.createElement(tag);
  if (text !== undefined) e.textContent = text;
  return e;
}

async function refresh() {
  const { data } = await call("GET", at(""));
  $("total").textContent = `${data.left} of ${data.stock} left in coupon ${data.id}, in ${data.buckets} buckets`;
  $("buckets").replaceChildren(...data.each.map((left, i) => {
    const item = element("li");
    const bar = element("progress");
    bar.max = data.initial[i];
    bar.value = left;
    bar.setAttribute("aria-label", `bucket ${i}`);
    item.append(element("span", `b${i}`), bar, element("span", `${left} of ${data.initial[i]}`));
    return item;
  }));
  receipts = [];
  await more();
  const books = (await call("GET", at("/audit"))).data;
  $("books").textContent = `left ${books.left} + sold ${books.sold} ${books.adds_up ? "=" : "is not"} ${books.stock}; ` +
    `${books.returned} returned, ${books.captured} paid, ${books.without_receipt.length} paid without a receipt`;
  $("sale").hidden = $("list").hidden = false;
}

async function more() {
  const after = receipts.length ? receipts.at(-1).id : "";
  const { data } = await call("GET", at(`/receipts?limit=${shown}&after=${encodeURIComponent(after)}`));
  receipts.push(...data);
  $("more").hidden = data.length < shown;
  $("receipts").replaceChildren(...receipts.map(row));
}

function row(r) {
  const tr = element("tr");
  for (const text of [r.id, `b${r.bucket}`, r.paid ? (r.paid / 100).toFixed(2) : "nothing", r.state]) {
    tr.append(element("td", text));
  }
  const cell = element("td");
  if (r.state === "sold") {
    const back = element("button", "Return");
    back.type = "button";
    back.setAttribute("aria-label", `Return ${r.id}`);
    back.addEventListener("click", () => work(async () => {
      await call("POST", at(`/receipts/${encodeURIComponent(r.id)}/return`));
      return `${r.id} was returned`;
    }));
    cell.append(back);
  }
  tr.append(cell);
  return tr;
}

// work does something, says what came of it, and shows the coupon as it is now.
async function work(what) {
  document.body.setAttribute("aria-busy", "true");
  try {
    say(await what(), true);
  } catch (err) {
    say(err.message, false);
  }
  try {
    if (coupon) await refresh();
  } catch (err) {
    say(err.message, false);
  }
  document.body.removeAttribute("aria-busy");
}

function claim(way, key) {
  last = { way, key };
  $("again").disabled = false;
  say("on its way …", true);
  return work(async () => {
    const { data, status } = await call("POST", at("/" + way), { key });
    return status === 201 ? `sold: receipt ${data.id}` : `sold before, under the same key: receipt ${data.id}`;
  });
}

const newKey = () => Array.from(crypto.getRandomValues(new Uint8Array(8)), (b) => b.toString(16).padStart(2, "0")).join("");

$("create").addEventListener("submit", (event) => {
  event.preventDefault();
  const f = new FormData(event.target);
  const body = { id: f.get("id"), stock: Number(f.get("stock")), buckets: Number(f.get("buckets")), price: Number(f.get("price")) };
  work(async () => {
    await call("POST", "/coupons", { body });
    show(body.id);
    return `coupon ${coupon} is there`;
  });
});
function show(id) {
  coupon = id;
  location.hash = id; // so that the page can be opened again, or a second time
}

function open(id) {
  return work(async () => {
    await call("GET", `/coupons/${encodeURIComponent(id)}`);
    show(id);
    return `coupon ${coupon}`;
  });
}

$("open").addEventListener("click", () => open(new FormData($("create")).get("id")));
$("claim").addEventListener("click", () => claim("claim", newKey()));
$("now").addEventListener("click", () => claim("claim-now", newKey()));
$("again").addEventListener("click", () => claim(last.way, last.key));
$("more").addEventListener("click", () => more().then(() => say(`${receipts.length} receipts`, true), (err) => say(err.message, false)));

if (location.hash.length > 1) open(decodeURIComponent(location.hash.slice(1)));
