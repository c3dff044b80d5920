/* The formula of `nodewise forecast` (workflow/nodewise/predict/cluster_steps.py) with the mean of
 * each constant. Seconds, bytes, examples. A test compares it with Python.
 */
"use strict";
(() => {
  /** Return the geometric mean of values. */
  const mean = (values) =>
    Math.exp(values.reduce((sum, one) => sum + Math.log(one), 0) / values.length);

  /** Return what two of `count` partners achieve over a link, in bytes per second. */
  function rateOf({ clusters, tcp_share, switched }, level, link, count) {
    const ways = Object.entries(link).map(([family, nominal]) => {
      const tcp = [Math.exp(clusters.tcp) * 1e9, tcp_share * nominal];
      const other = [Math.exp(clusters[family]) * nominal, nominal];
      if (family === "rdma") other[0] = Math.max(other[0], Math.min(...tcp));
      const [achieved, limit] = family === "tcp" ? tcp : other;
      const contended = clusters[`contention_${family === "no_p2p" ? family : level}`];
      const power = family === "nvlink" && nominal >= switched ? 0 : contended;
      return [achieved / (count / 2) ** power, limit];
    });
    return Math.min(...[0, 1].map((at) => mean(ways.map((way) => way[at]))));
  }

  /** Return how much slower computing is on a number of devices, and the seconds of sending. */
  function slowerAndSend(known, cluster, training, devices) {
    const { clusters } = known;
    const payload = training.parameters * (training.traffic ?? 1) * mean(training.bytes);
    const levels = [
      ["within", "devices_differ", Math.min(devices, cluster.inside)],
      ["between", "nodes_differ", Math.ceil(devices / cluster.inside)],
    ];
    let [slower, send] = [1, 0];
    for (const [level, differ, count] of levels) {
      slower += Math.exp(clusters[differ]) * Math.log2(count);
      if (count > 1) {
        const rate = rateOf(known, level, cluster[level], count);
        send += (2 * (1 - 1 / count) * payload) / rate;
        send += Math.ceil(payload / known.bucket_bytes) * Math.exp(clusters[`latency_${level}`]);
      }
    }
    return [slower, send];
  }

  const share = (logit) => 1 / (1 + Math.exp(-logit));

  /** Return the seconds of a step on a number of devices.
   *
   * @param known the constants: `tcp_share`, `switched`, `bucket_bytes`, `most_fixed_s`, means of `clusters`
   * @param cluster `inside`: devices in a machine; `within` and `between`: nominal rates by family
   * @param training `parameters`, `bytes` of a gradient's number (equally likely ones), `traffic`
   *   against a ring, and `hidden`, the share of sending behind computing, where it is known
   * @param step_s the measured step on one device
   * @param devices how many
   * @param batch examples of a device against those of the measured step
   */
  function stepSeconds(known, cluster, training, step_s, devices, batch = 1) {
    const fixed = Math.min(share(known.clusters.batch_fixed), known.most_fixed_s / step_s);
    const hidden = training.hidden ?? share(known.clusters.hidden);
    const [slower, send] = slowerAndSend(known, cluster, training, devices);
    const slow = slower * step_s * (fixed + (1 - fixed) * batch);
    return slow + send - hidden * Math.min(slow, send);
  }

  window.nodewiseForecast = { stepSeconds };
})();
