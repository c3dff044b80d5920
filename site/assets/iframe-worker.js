"use strict";
/* The index of the search is loaded when the search is opened, not with the page. */
(() => {
  const { open, send } = XMLHttpRequest.prototype;
  const addresses = new WeakMap();
  XMLHttpRequest.prototype.open = function (method, url, ...others) {
    addresses.set(this, String(url));
    return open.call(this, method, url, ...others);
  };
  XMLHttpRequest.prototype.send = function (body) {
    if (!addresses.get(this)?.endsWith("search_index.json")) {
      return send.call(this, body);
    }
    const field = document.querySelector("[data-md-component=search]");
    field.addEventListener("focusin", () => send.call(this, body), { once: true });
  };
})();

/* Web workers for pages opened from a folder, where browsers refuse to start one.
 *
 * The worker's script runs in an empty, hidden frame instead. What it posts reaches the page, what
 * the page posts reaches it: as much of the interface of Worker as the search of the theme uses.
 */
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "search";
      document.body.append(frame);
      frame.contentDocument.open(); // Firefox would replace an untouched empty page later
      frame.contentDocument.close();
      this.inside = frame.contentWindow;
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.inside.importScripts = (...urls) => Promise.all(urls.map((one) => this.load(one)));
      this.ready = this.load(new URL(url, location));
    }

    load(url) {
      return new Promise((resolve, reject) => {
        const script = this.inside.document.createElement("script");
        script.src = url;
        script.onload = resolve;
        script.onerror = reject;
        this.inside.document.head.append(script);
      });
    }

    async postMessage(data) {
      await this.ready;
      this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data }));
    }
  };
  window.Worker = window.IFrameWorker;
}
