// A plot of the last minutes, drawn by uPlot in the colours of the page.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";

export interface Line {
  name: string;
  colour: string;
  values: (number | null)[];
}

export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim() || "#888";
}

/** How much time a plot shows at most, and at least while the page has not been open for so long. */
const SECONDS_MAX = 900;
const SECONDS_MIN = 120;

function clock(seconds: number): string {
  return new Date(seconds * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: seconds % 60 ? "2-digit" : undefined, hour12: false });
}

export function Plot(props: { title: string; times: number[]; lines: Line[]; show: (value: number) => string; note: string }) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const names = props.lines.map((line) => line.name + line.colour).join("\n");
  const data: uPlot.AlignedData = [props.times, ...props.lines.map((line) => line.values)];

  useEffect(() => {
    const at = place.current!;
    const axis = { stroke: colour("dim"), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
    const made = new uPlot(
      {
        width: at.clientWidth || 300,
        height: 130,
        legend: { show: false },
        cursor: { drag: { x: false, y: false }, points: { show: false } },
        scales: { x: { time: true, range: (_u, min, max) => [max - Math.min(SECONDS_MAX, Math.max(SECONDS_MIN, max - min)), max] }, y: { range: (_u, _min, max) => [0, Math.max(max * 1.1, 1e-9)] } },
        axes: [{ ...axis, size: 24, values: (_u, times) => times.map(clock) }, { ...axis, size: 52, values: (_u, values) => values.map(props.show) }],
        series: [
          {},
          ...props.lines.map((line) => ({ label: line.name, stroke: line.colour, width: 1.5, points: { show: false }, spanGaps: false })),
        ],
      },
      data,
      at,
    );
    plot.current = made;
    const fit = new ResizeObserver(() => made.setSize({ width: at.clientWidth || 300, height: 130 }));
    fit.observe(at);
    return () => {
      fit.disconnect();
      made.destroy();
    };
  }, [names]);

  useEffect(() => plot.current?.setData(data), [props.times.length && props.times[props.times.length - 1], names]);

  const last = (values: (number | null)[]) => values[values.length - 1];
  return (
    <figure class="plot">
      <figcaption>
        {props.title}
        <span class="legend">
          {props.lines.map((line) => {
            const value = last(line.values);
            return (
              <span>
                <i style={{ background: line.colour }} /> {line.name} <b>{value === null || value === undefined ? "–" : props.show(value)}</b>
              </span>
            );
          })}
        </span>
      </figcaption>
      <div ref={place} role="img" aria-label={`${props.title}: ${props.note}`} />
    </figure>
  );
}
