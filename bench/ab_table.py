import glob, json, sys, os
NEED = {("graph","heap",8):(2.1,2.4,3.2),("graph","heap",4096):(2.3,2.7,3.6),("graph","heap",65536):(2.6,3.4,6.3),("graph","heap",1<<20):(5.5,10,23),("graph","plain",1<<20):(7.2,12.5,27)}
rows = {}
for f in sys.argv[1:]:
    tag = os.path.basename(f)[:-5]
    for line in open(f):
        line = line.strip().rstrip(",")
        if not line.startswith("{"): continue
        r = json.loads(line)
        t = r.get("time_us")
        text = "refused" if t is None else f"{t:.2f}" if t < 100 else f"{t:.0f}"
        if r.get("host_us") and r["mode"] == "batch": text += f"(h{r['host_us']:.2f})"
        if r.get("errors"): text += f" WRONG{r['errors']}"
        need = NEED.get((r["mode"], r["buffers"], r["bytes_per_rank"]))
        if need and "one" in tag and r["ranks"] in (2,4,8):
            lim = need[(2,4,8).index(r["ranks"])]
            text += f"/{lim}" + ("" if t and t <= lim*1.05 else "!")
        b = r["bytes_per_rank"]
        size = f"{b>>20}M" if b >= 1<<20 else f"{b>>10}K" if b >= 1024 else str(b)
        if t and b >= 16<<20: text += f" [{(r['ranks']-1)*b/t/1e3:.0f}GB/s]" if "two" in tag else f" [{r.get('fraction') or 0:.3f}]"
        sms = r.get("comm_sms")
        rows.setdefault((tag, r["ranks"], r["buffers"], r["mode"]), []).append(f"{size}{'' if sms is None else '@'+str(sms)}:{r.get('variant_used','')[:2]}{r.get('blocks','')} {text}")
for k in sorted(rows): print(f"{k[0]} n{k[1]} {k[2]} {k[3]}: " + " | ".join(rows[k]))
