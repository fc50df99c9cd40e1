"use strict";

// What comes from the server is shown as text, never as markup.

const $ = (id) => document.getElementById(id);
const shown = 100;       // receipts at a time
const patience = 45_000; // milliseconds: the server works on nothing for longer

let coupon = "";      // the one on the page
let last = null;      // the last claim: {way, key}
let receipts = [];
let busy = false;     // a request is on its way: no other one starts

const nameInput = $("create").elements.id;

function say(text, good) {
  $("said").textContent = text;
  $("said").className = good ? "good" : "bad";
}

// call sends a request. What goes wrong becomes an error with words for people, with the status, if
// there was one, and with unsure where the request may have done its work all the same.
async function call(method, path, { body, key } = {}) {
  const headers = {};
  if (body) headers["Content-Type"] = "application/json";
  if (key) headers["Idempotency-Key"] = key;
  let resp, data;
  try {
    resp = await fetch(path, { method, headers, body: body && JSON.stringify(body), signal: AbortSignal.timeout(patience) });
    data = await resp.json();
  } catch { // none, half of one, or what somebody in between had to say
    throw Object.assign(new Error(resp ? `the server's answer (${resp.status}) cannot be read` : "the server does not answer"), { unsure: true });
  }
  if (resp.ok) return { data, status: resp.status };
  const why = [data.field, data.detail].filter((part) => part).join(" ");
  throw Object.assign(new Error(why ? `${data.title}: ${why}` : data.title), { status: resp.status, unsure: !["refused", "failed"].includes(data.outcome) });
}

const at = (rest) => `/coupons/${encodeURIComponent(coupon)}${rest}`;

function element(tag, text) {
  const e = document.createElement(tag);
  if (text !== undefined) e.textContent = text;
  return e;
}

// refresh shows the coupon as it is now.
async function refresh() {
  const { data } = await call("GET", at(""));
  $("total").textContent = `${data.left} of ${data.stock} left in coupon ${data.id}, in ${data.buckets} ${data.buckets === 1 ? "bucket" : "buckets"}`;
  $("buckets").replaceChildren(...data.each.map((left, i) => {
    const item = element("li");
    const bar = element("progress");
    bar.max = data.initial[i];
    bar.value = left;
    bar.setAttribute("aria-label", `bucket ${i}`);
    item.append(element("span", `b${i}`), bar, element("span", `${left} of ${data.initial[i]}`));
    return item;
  }));
  await list(receipts.length);
  const books = (await call("GET", at("/audit"))).data;
  $("books").textContent = `left ${books.left} + sold ${books.sold} ${books.left + books.sold === books.stock ? "=" : "is not"} ${books.stock}; ` +
    `${books.returned} returned, ${books.captured} paid, ${books.without_receipt.length} paid without a receipt` +
    (books.without_payment.length ? `, ${books.without_payment.length} sold whose payment is missing` : "");
  $("sale").hidden = $("list").hidden = false;
}

// list shows the receipts, at least so many of them, if there are.
async function list(wanted) {
  const all = [];
  let some;
  do {
    some = (await call("GET", at(`/receipts?limit=${shown}&after=${encodeURIComponent(all.length ? all.at(-1).id : "")}`))).data;
    all.push(...some);
  } while (some.length === shown && all.length < wanted);
  receipts = all;
  $("more").hidden = some.length < shown;
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

// work does something, says what came of it, and shows the coupon as it is now. What is pressed in the
// meantime does nothing: a double click buys once, and the last claim is the one that is spoken of.
async function work(what) {
  if (busy) return;
  busy = true;
  const main = document.querySelector("main");
  main.setAttribute("aria-busy", "true");
  say("on its way …", true);
  const focus = document.activeElement;
  let text, good;
  try {
    [text, good] = [await what(), true];
  } catch (err) {
    [text, good] = [err.message, false];
  }
  try {
    if (coupon) await refresh();
  } catch (err) { // what came of it is not forgotten over this
    if (!text.includes(err.message)) text += `; ${err.message}`;
    if (err.status === 404) {
      text += ". If the server was started anew, create the coupon again";
      show("");
    } else {
      text += ". The stock and the receipts on this page are from before";
    }
  }
  say(text, good);
  main.removeAttribute("aria-busy");
  busy = false;
  // The keyboard goes on near to what is gone.
  if (focus.closest("[hidden]")) nameInput.select();
  else if (!focus.isConnected) $("table").focus();
}

function claim(way, key) {
  return work(async () => {
    last = { way, key };
    $("again").disabled = false;
    try {
      const { data, status } = await call("POST", at("/" + way), { key });
      return status === 201 ? `sold: receipt ${data.id}` : `sold before, under the same key: receipt ${data.id}`;
    } catch (err) {
      if (err.unsure) err.message += `. It may have been sold: “${$("again").textContent}” asks under the same key and buys nothing twice`;
      throw err;
    }
  });
}

const newKey = () => Array.from(crypto.getRandomValues(new Uint8Array(8)), (b) => b.toString(16).padStart(2, "0")).join("");

// show makes a coupon the one on the page, or none.
function show(id) {
  if (id !== coupon) {
    receipts = [];
    $("again").disabled = true; // the last claim was for the other coupon, and would buy here
  }
  coupon = id;
  if (!id) $("sale").hidden = $("list").hidden = true;
  else history.replaceState(null, "", "#" + id); // so that the page can be opened again, or a second time
}

function open(id) {
  nameInput.value = id;
  if (!nameInput.checkValidity()) {
    say(`“${id.length > 64 ? id.slice(0, 64) + "…" : id}” is no name of a coupon: ${nameInput.title}`, false);
    nameInput.select();
    return;
  }
  work(async () => {
    await call("GET", `/coupons/${encodeURIComponent(id)}`);
    show(id);
    return `coupon ${coupon}`;
  });
}

// fromAddress opens the coupon that the page's address names.
function fromAddress() {
  let id = location.hash.slice(1);
  try {
    id = decodeURIComponent(id);
  } catch {} // then it is shown as it is
  if (id && id !== coupon) open(id);
}

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
$("open").addEventListener("click", () => open(nameInput.value));
$("claim").addEventListener("click", () => claim("claim", newKey()));
$("now").addEventListener("click", () => claim("claim-now", newKey()));
$("again").addEventListener("click", () => claim(last.way, last.key));
$("more").addEventListener("click", () => work(async () => {
  await list(receipts.length + shown);
  return `${receipts.length} receipts`;
}));
addEventListener("hashchange", fromAddress);
fromAddress();
