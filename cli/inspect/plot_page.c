/* SPDX-License-Identifier: Apache-2.0
 *
 * plot_page.c: the page around the picture: one file that loads nothing from elsewhere. Without its script it shows the
 * picture as it was printed. */
#include <stdio.h>
#include <string.h>

#include "cli/common/quantity.h"
#include "cli/inspect/plot.h"

/* Dark as the reader's system says. */
const char *const cli_plot_style[] = {
    ":root{--paper:#fbfbfd;--card:#ffffff;--ink:#1b1f2a;--soft:#667085;--line:#e6e8ef;--row:#f3f4f8;--phase:#c3cbdd;"
    "--phase-ink:#28324a;--handler:#1f9d8b;--model:#7a5af0;--tool:#e08a1e;--history:#7c8aa5;--bad:#d92d42;"
    "--on:#ffffff;--tip:#1b1f2a;--tip-ink:#f5f6fa}\n"
    "@media(prefers-color-scheme:dark){:root{--paper:#11141b;--card:#181c26;--ink:#e7e9f0;--soft:#98a2b8;"
    "--line:#272d3b;--row:#161a23;--phase:#3a4460;--phase-ink:#dde3f3;--handler:#2bb5a0;--model:#947bff;"
    "--tool:#eea03a;--history:#8391ad;--bad:#ff5c6e;--on:#0e1117;--tip:#eef0f6;--tip-ink:#161a23}}\n",
    ".plot{display:block;font:11.5px/1.3 system-ui,-apple-system,'Segoe UI',Roboto,sans-serif;fill:var(--ink)}\n"
    ".plot .row{fill:transparent}.plot .lane:nth-of-type(even) .row{fill:var(--row)}\n"
    ".plot .lane text{fill:var(--soft);font-weight:600}\n"
    ".plot .axis line{stroke:var(--line)}.plot .axis text{fill:var(--soft);text-anchor:middle;font-size:10.5px}\n"
    ".plot .end{stroke:var(--soft);stroke-dasharray:2 3}\n"
    ".plot .phase .body{fill:var(--phase)}.plot .handler .body{fill:var(--handler)}\n"
    ".plot .model .body{fill:var(--model)}.plot .tool .body{fill:var(--tool)}\n"
    ".plot .history .body{fill:var(--history)}.plot .detached .body{fill-opacity:.55}\n"
    ".plot .bad .body{fill:var(--bad)}\n"
    ".plot .queued{fill:var(--soft);fill-opacity:.25}\n"
    ".plot .late{fill:var(--bad);fill-opacity:.25}\n"
    ".plot .deadline{stroke:var(--ink);stroke-width:2}.plot .bad .deadline{stroke:var(--bad)}\n"
    ".plot .bar text{font-size:11.5px;pointer-events:none}.plot .bar .in{fill:var(--on);font-weight:600}\n"
    ".plot .phase .in{fill:var(--phase-ink)}.plot .bad .in{fill:var(--on)}\n"
    ".plot .bad .out{fill:var(--bad);font-weight:700}\n"
    ".plot .bar:hover .body{stroke:var(--ink);stroke-width:1.5}\n",
    NULL};

static const char *const page_style[] = {
    "*{box-sizing:border-box}body{margin:0;padding:28px 32px 40px;background:var(--paper);color:var(--ink);"
    "font:14px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}\n"
    "h1{margin:0;font-size:22px;letter-spacing:-.01em;overflow-wrap:anywhere}\n"
    "h2{margin:28px 0 10px;font-size:15px}\n"
    ".meta{color:var(--soft);margin:2px 0 18px;overflow-wrap:anywhere}\n"
    ".pill{display:inline-block;vertical-align:3px;margin-left:10px;padding:1px "
    "10px;border-radius:99px;font-size:12.5px;"
    "font-weight:600;color:var(--on);background:var(--handler)}.pill.bad{background:var(--bad)}\n"
    ".cards{display:flex;flex-wrap:wrap;gap:10px;margin:0 0 18px}\n"
    ".card{flex:1 1 110px;background:var(--card);border:1px solid var(--line);border-radius:10px;padding:10px 14px}\n"
    ".card b{display:block;font-size:19px;font-variant-numeric:tabular-nums}.card "
    "span{color:var(--soft);font-size:12.5px}\n"
    ".box{background:var(--card);border:1px solid var(--line);border-radius:12px;overflow:hidden}\n",
    ".bar-top{display:flex;flex-wrap:wrap;gap:6px 18px;align-items:center;padding:10px 14px;"
    "border-bottom:1px solid var(--line);color:var(--soft);font-size:12.5px}\n"
    ".key i{display:inline-block;width:11px;height:11px;border-radius:3px;margin-right:6px;vertical-align:-1px}\n"
    ".tools{margin-left:auto;white-space:nowrap}\n"
    "button{font:inherit;color:var(--ink);background:var(--row);border:1px solid var(--line);border-radius:6px;"
    "padding:1px 10px;cursor:pointer}button:hover{border-color:var(--soft)}\n"
    "#hold{cursor:grab;touch-action:pan-y;overflow-x:auto}#hold.drag{cursor:grabbing}\n"
    "#tip{position:fixed;z-index:2;max-width:420px;padding:8px 12px;border-radius:8px;background:var(--tip);"
    "color:var(--tip-ink);font-size:12.5px;white-space:pre-line;pointer-events:none;opacity:0;"
    "box-shadow:0 6px 24px #0004;overflow-wrap:anywhere}#tip::first-line{font-weight:700}\n"
    "table{border-collapse:collapse;width:100%}td{padding:7px 14px;border-top:1px solid var(--line);vertical-align:top;"
    "overflow-wrap:break-word}tr:first-child td{border-top:0}td:first-child{font-weight:600}"
    "td.bad{color:var(--bad);font-weight:600;white-space:nowrap}td.soft{color:var(--soft)}\n"
    "footer{margin-top:18px;color:var(--soft);font-size:12.5px}\n"
    "@media(max-width:640px){body{padding:18px 14px}}\n",
    NULL};

/* Draws the bars again, at the width of the window and at the current zoom. */
static const char *const page_script[] = {
    "(function(){'use strict';\n"
    "var svg=document.getElementById('plot'),hold=document.getElementById('hold'),tip=document.getElementById('tip');\n"
    "var LEFT=132,RIGHT=16,all=+svg.dataset.all,first=+svg.dataset.view,from=0,to=first,width=1200;\n"
    "var bars=[].map.call(svg.querySelectorAll('.bar'),function(g){\n"
    " function n(k){return +g.dataset[k]}function q(s){return g.querySelector(s)}\n"
    " var title=q('title');g.dataset.tip=title.textContent;title.remove();\n"
    " var text=q('text');text.setAttribute('display','inline');\n"
    " return{g:g,lane:n('lane'),q:n('q'),s:n('s'),e:n('e'),d:n('d'),l:n('l'),body:q('.body'),queued:q('.queued'),\n"
    "  late:q('.late'),deadline:q('.deadline'),text:text,size:text.getComputedTextLength()+8,\n"
    "  bad:g.classList.contains('bad')}});\n"
    "svg.querySelector('title').remove();\n"
    "function x(t){return LEFT+(t-from)/(to-from)*(width-LEFT-RIGHT)}\n"
    "function clip(v){return Math.max(LEFT,Math.min(width-RIGHT,v))}\n"
    "function span(el,a,b){if(!el)return;var p=clip(x(a)),r=clip(x(b)),out=x(b)<LEFT-1||x(a)>width-RIGHT;\n"
    " el.setAttribute('display',out?'none':'inline');el.setAttribute('x',p);\n"
    " el.setAttribute('width',Math.max(1.5,r-p))}\n"
    "function at(el,t){if(!el)return;var p=x(t);el.setAttribute('display',p<LEFT-1||p>width-RIGHT+1?'none':'inline');\n"
    " el.setAttribute('x1',p);el.setAttribute('x2',p)}\n",
    "function label(b,prev,next){var p=clip(x(b.s)),r=clip(x(b.e)),far=clip(x(Math.max(b.e,b.l)));\n"
    " var free=next?clip(x(next.q)):width-RIGHT,gone=x(Math.max(b.e,b.l))<LEFT||x(b.s)>width-RIGHT;\n"
    " var inside=r-p>=b.size+6,beside=far+b.size<=free,t=b.text;\n"
    " var before=p-b.size>=(prev?clip(x(Math.max(prev.e,prev.l)))+(prev.spills||0):LEFT);\n"
    " b.spills=!gone&&!inside&&beside?b.size:0;\n"
    " t.setAttribute('class',inside?'in':'out');\n"
    " t.setAttribute('text-anchor',inside||beside?'start':'end');\n"
    " t.setAttribute('x',inside?p+6:beside?far+5:p-5);\n"
    " t.setAttribute('display',gone||!inside&&!beside&&!before&&!(b.bad&&p-b.size>LEFT)?'none':'inline')}\n"
    "function name(ns){var u=[[1e9,' s'],[1e6,' ms'],[1e3,' \\u00b5s'],[1,' ns']],i=0;\n"
    " if(ns<=0)return'0';while(i<3&&ns<u[i][0])i++;return+(ns/u[i][0]).toPrecision(6)+u[i][1]}\n"
    "function axis(){var g=svg.querySelector('.axis'),NS='http://www.w3.org/2000/svg';\n"
    " var part=(to-from)/Math.max(3,(width-LEFT)/130),step=Math.pow(10,Math.floor(Math.log10(part))),k=part/step;\n"
    " step*=k>5?10:k>2?5:k>1?2:1;while(g.firstChild)g.firstChild.remove();\n"
    " var bottom=svg.querySelector('.end').getAttribute('y2');\n"
    " for(var t=Math.ceil(from/step)*step;t<=to;t+=step){var l=document.createElementNS(NS,'line');\n"
    "  l.setAttribute('x1',x(t));l.setAttribute('x2',x(t));l.setAttribute('y1',28);l.setAttribute('y2',bottom);\n"
    "  var m=document.createElementNS(NS,'text');m.setAttribute('x',x(t));m.setAttribute('y',22);\n"
    "  m.textContent=name(t);g.appendChild(l);g.appendChild(m)}}\n"
    "function draw(){width=Math.max(560,hold.clientWidth);svg.setAttribute('width',width);\n"
    " svg.setAttribute('viewBox','0 0 '+width+' '+svg.getAttribute('height'));\n"
    " svg.querySelectorAll('.row').forEach(function(r){r.setAttribute('width',width)});\n"
    " bars.forEach(function(b,i){span(b.queued,b.q,b.s);span(b.late,b.e,b.l);span(b.body,b.s,b.e);at(b.deadline,b.d);\n"
    "  var prev=bars[i-1],next=bars[i+1];\n"
    "  label(b,prev&&prev.lane===b.lane?prev:null,next&&next.lane===b.lane?next:null)});\n"
    " var end=svg.querySelector('.end');at(end,+end.dataset.at);axis()}\n",
    "function look(a,b){var least=Math.max(200,all*1e-6),most=Math.max(all,first)*1.02;\n"
    " if(b-a<least){var m=(a+b)/2;a=m-least/2;b=m+least/2}if(b-a>most){a=0;b=most}\n"
    " if(a<0){b-=a;a=0}if(b>most){a=Math.max(0,a-(b-most));b=most}from=a;to=b;draw()}\n"
    "function zoom(f,px){var t=from+Math.max(0,px-LEFT)/(width-LEFT-RIGHT)*(to-from);look(t-(t-from)*f,t+(to-t)*f)}\n"
    "function px(e){return e.clientX-svg.getBoundingClientRect().left}\n"
    "hold.addEventListener('wheel',function(e){e.preventDefault();\n"
    " if(e.shiftKey||Math.abs(e.deltaX)>Math.abs(e.deltaY)){var "
    "d=(e.deltaX||e.deltaY)/width*(to-from);look(from+d,to+d)}\n"
    " else zoom(Math.exp(e.deltaY*.0015),px(e))},{passive:false});\n"
    "var grip=null;\n"
    "hold.addEventListener('pointerdown',function(e){grip={x:e.clientX,a:from,b:to};hold.classList.add('drag');\n"
    " hold.setPointerCapture(e.pointerId)});\n"
    "hold.addEventListener('pointermove',function(e){if(grip){\n"
    " var d=(grip.x-e.clientX)/(width-LEFT-RIGHT)*(grip.b-grip.a);tip.style.opacity=0;look(grip.a+d,grip.b+d);return}\n"
    " var g=e.target.closest&&e.target.closest('.bar');if(!g){tip.style.opacity=0;return}\n"
    " tip.textContent=g.dataset.tip;tip.style.opacity=1;var w=tip.offsetWidth,h=tip.offsetHeight;\n"
    " tip.style.left=Math.max(8,Math.min(e.clientX+14,innerWidth-w-8))+'px';\n"
    " tip.style.top=(e.clientY+18+h>innerHeight?e.clientY-h-12:e.clientY+18)+'px'});\n"
    "function drop(){grip=null;hold.classList.remove('drag')}\n"
    "hold.addEventListener('pointerup',drop);hold.addEventListener('pointercancel',drop);\n"
    "hold.addEventListener('pointerleave',function(){tip.style.opacity=0});\n"
    "hold.addEventListener('dblclick',function(e){var g=document.elementsFromPoint(e.clientX,e.clientY)\n"
    " .map(function(n){return n.closest('.bar')}).filter(Boolean)[0];if(!g){look(0,first);return}\n"
    " var s=+g.dataset.q,e2=Math.max(+g.dataset.e,+g.dataset.l),m=Math.max(e2-s,100)*.1;look(s-m,e2+m)});\n",
    "function press(id,f){document.getElementById(id).addEventListener('click',f)}\n"
    "function mid(){return LEFT+(width-LEFT-RIGHT)/2}\n"
    "press('closer',function(){zoom(.5,mid())});press('wider',function(){zoom(2,mid())});\n"
    "press('whole',function(){look(0,first)});\n"
    "addEventListener('keydown',function(e){if(e.ctrlKey||e.metaKey||e.altKey)return;var w=(to-from)/5;\n"
    " if(e.key==='+'||e.key==='=')zoom(.5,mid());else if(e.key==='-')zoom(2,mid());else if(e.key==='0')look(0,first);\n"
    " else if(e.key==='ArrowLeft')look(from-w,to-w);else if(e.key==='ArrowRight')look(from+w,to+w)});\n"
    "addEventListener('resize',draw);draw();document.documentElement.dataset.drawn='yes'})();\n",
    NULL};

static void print_all(const char *const *texts, cli_output *output) {
  for (; *texts; texts++) cli_print_string(output, *texts);
}

/* ---- above the picture ---- */

static void print_card(cli_output *output, const char *value, const char *name) {
  cli_printf(output, "<div class=\"card\"><b>%s</b><span>%s</span></div>\n", value, name);
}

static void print_cards(const cli_plot *plot, cli_output *output) {
  const cli_trace *t = plot->trace;
  char words[64];
  cli_print_string(output, "<div class=\"cards\">\n");
  print_card(output, cli_duration((double)plot->turn_ns).text, "whole turn");
  snprintf(words, sizeof words, "model, %u request%s", t->iterations, t->iterations == 1 ? "" : "s");
  print_card(output, cli_duration((double)t->model_ns).text, words);
  snprintf(words, sizeof words, "tools, %u call%s", t->tool_calls, t->tool_calls == 1 ? "" : "s");
  print_card(output, cli_duration((double)t->tools_ns).text, words);
  print_card(output, cli_duration((double)(t->load_ns + t->append_ns)).text, "history");
  cli_print_string(output, "</div>\n");
}

static void print_head(const cli_plot *plot, cli_output *output) {
  const cli_trace *t = plot->trace;
  char time[40];
  cli_print_string(output, "<h1>turn ");
  cli_plot_escape(output, t->turn_id);
  cli_printf(output, "<span class=\"pill%s\">%s</span></h1>\n<p class=\"meta\">",
             t->has_record && t->outcome == TP_TURN_COMPLETED ? "" : " bad", cli_trace_outcome(t));
  if (t->session[0]) cli_print_string(output, "session ");
  cli_plot_escape(output, t->session);
  cli_printf(output, "%s%s", t->session[0] ? " · " : "", cli_data_time(t->started_unix_ms, time));
  if (t->reason[0]) cli_print_string(output, "<br>");
  cli_plot_escape(output, t->reason);
  cli_print_string(output, "</p>\n");
  print_cards(plot, output);
}

static void print_keys(cli_output *output) {
  static const char *const keys[][2] = {{"phase", "phase"}, {"handler", "handler"}, {"model", "model"},
                                        {"tool", "tool"},   {"history", "history"}, {"bad", "failed, late or denied"}};
  cli_print_string(output, "<div class=\"bar-top\">\n");
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
    cli_printf(output, "<span class=\"key\"><i style=\"background:var(--%s)\"></i>%s</span>\n", keys[i][0], keys[i][1]);
  cli_print_string(output,
                   "<span class=\"tools\"><button id=\"closer\" title=\"zoom in (+)\">+</button> "
                   "<button id=\"wider\" title=\"zoom out (-)\">−</button> "
                   "<button id=\"whole\" title=\"the whole turn (0)\">whole turn</button></span></div>\n");
}

/* ---- below it ---- */

static void print_problem(const cli_plot_bar *bar, cli_output *output) {
  char words[512];
  cli_print_string(output, "<tr><td>");
  cli_plot_escape(output, bar->label);
  cli_printf(output, "</td><td class=\"bad\">%s</td><td class=\"soft\">%s</td><td>", cli_plot_bar_outcome(bar),
             bar->run ? bar->entry->phase : cli_plot_bar_kind(bar));
  cli_plot_escape(output, cli_plot_bar_why(bar, words, sizeof words));
  cli_print_string(output, "</td></tr>\n");
}

void cli_plot_print_page(const cli_plot *plot, cli_output *output) {
  cli_print_string(output,
                   "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                   "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                   "<meta name=\"color-scheme\" content=\"light dark\">\n<title>turn ");
  cli_plot_escape(output, plot->trace->turn_id);
  cli_print_string(output, "</title>\n<style>\n");
  print_all(cli_plot_style, output);
  print_all(page_style, output);
  cli_print_string(output, "</style>\n</head>\n<body>\n");
  print_head(plot, output);
  cli_print_string(output, "<div class=\"box\">\n");
  print_keys(output);
  cli_print_string(output, "<div id=\"hold\">\n");
  cli_plot_print_svg(plot, true, output);
  cli_print_string(output, "</div></div>\n");
  bool has_any = false;
  for (size_t i = 0; i < plot->bar_count; i++) {
    const cli_plot_bar *bar = &plot->bars[i];
    if (!bar->is_bad || (bar->entry && !bar->run)) continue;
    if (!has_any) cli_print_string(output, "<h2>What did not go well</h2>\n<div class=\"box\"><table>\n");
    has_any = true;
    print_problem(bar, output);
  }
  if (has_any) cli_print_string(output, "</table></div>\n");
  if (plot->trace->steps_dropped)
    cli_printf(output, "<p class=\"meta\">%llu more steps were not recorded.</p>\n",
               (unsigned long long)plot->trace->steps_dropped);
  cli_print_string(output,
                   "<footer>Wheel: zoom. Drag: move. Double click: to a bar, or back. Grey before a bar: it "
                   "waited for a thread. Upright line: its deadline.</footer>\n"
                   "<div id=\"tip\"></div>\n<script>\n");
  print_all(page_script, output);
  cli_print_string(output, "</script>\n</body>\n</html>\n");
}
