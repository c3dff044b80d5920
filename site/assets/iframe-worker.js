"use strict";
/* The index of the search is loaded when the search is opened, not with the page. */
const openRequest = XMLHttpRequest.prototype.open;
XMLHttpRequest.prototype.open = function (method, url, ...others) {
  openRequest.call(this, method, url, ...others);
  if (String(url).endsWith("search_index.json")) {
    const search = document.querySelector("[data-md-component=search]");
    const send = this.send.bind(this);
    this.send = () => search.addEventListener("focusin", () => send(), { once: true });
  }
};

/* So is its worker. For pages opened from a folder, where browsers refuse to start workers, the script
 * of the worker runs in an empty, hidden frame, and what either side posts reaches the other. */
const Thread = window.Worker;
window.Worker = window.IFrameWorker = class extends EventTarget {
  constructor(url, options) {
    super();
    this.start = async () => {
      const tell = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      if (location.protocol !== "file:") {
        const thread = new Thread(url, options);
        thread.onmessage = ({ data }) => tell(data);
        return thread;
      }
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "search";
      document.body.append(frame);
      frame.contentDocument.open(); // Firefox would replace an untouched empty page later
      frame.contentDocument.close();
      const inside = frame.contentWindow;
      const load = (src) =>
        new Promise((onload, onerror) => {
          const script = inside.document.createElement("script");
          inside.document.head.append(Object.assign(script, { src: String(src), onload, onerror }));
        });
      inside.postMessage = tell;
      inside.importScripts = (...scripts) => Promise.all(scripts.map(load));
      await load(new URL(url, location));
      const message = (data) => new inside.MessageEvent("message", { data });
      return { postMessage: (data) => inside.dispatchEvent(message(data)) };
    };
  }

  async postMessage(data) {
    this.started ??= this.start();
    (await this.started).postMessage(data);
  }
};
