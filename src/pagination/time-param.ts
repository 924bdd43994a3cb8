/** A bound as the services are known to read it, rounded down to the second: `2015-10-21T15:41:36+00:00`. */
export function timeParam(ms: number): string {
  return `${new Date(floorSecond(ms)).toISOString().slice(0, 19)}+00:00`;
}

export function floorSecond(ms: number): number {
  return Math.floor(ms / 1000) * 1000;
}
