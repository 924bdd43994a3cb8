import { isJsonObject, type JsonObject, type JsonValue } from '../core/json.ts';
import type { Params } from '../core/records.ts';
import type { Entity, Param } from './definition.ts';

/** How a time is written: in UTC. */
const formats = {
  date: (iso: string) => iso.slice(0, 10),
  compactDate: (iso: string) => iso.slice(0, 10).replaceAll('-', ''),
  compactHour: (iso: string) => iso.slice(0, 13).replaceAll('-', ''),
  dateTime: (iso: string) => `${iso.slice(0, 19)}Z`,
  unix: (_iso: string, ms: number) => String(Math.floor(ms / 1000)),
  unixMs: (_iso: string, ms: number) => String(ms),
} as const;

type Format = keyof typeof formats;

/** In place of a fixed parameter's value: the time when a walk begins, and so many days later. */
interface ClockValue {
  readonly days: number;
  readonly format: Format;
}

const dayMs = 86_400_000;
const mostDays = 3_650;
const example = '{ days: -30, format: date }';

/** Whether a fixed value stands for a time: an object where the parameter takes none. */
export function isClockValue(value: JsonValue, { type }: Pick<Param, 'type'>): value is JsonObject {
  return type !== 'object' && isJsonObject(value);
}

/** What is wrong with it; null: nothing. */
export function clockProblem(value: JsonObject, { type }: Pick<Param, 'type'>): string | null {
  const { days, format, ...others } = value;
  if (Object.keys(others).length > 0 || days === undefined || format === undefined) {
    return `expected a time of the clock such as ${example}, or a value of type ${type}`;
  }
  if (!Number.isInteger(days) || Math.abs(Number(days)) > mostDays) {
    return `expected days to be a whole number from -${mostDays} to ${mostDays}`;
  }
  if (typeof format !== 'string' || !Object.hasOwn(formats, format)) {
    return `expected format to be one of ${Object.keys(formats).join(', ')}`;
  }
  if (type !== 'string' && type !== 'integer') {
    return `expected a string or integer parameter for a time, this one is of type ${type}`;
  }
  return type === 'string' || /^\d+$/.test(textAt({ days: 0, format: format as Format }, 0))
    ? null
    : 'expected format unix, unixMs or compactDate: the parameter is of type integer';
}

/** The parameters that the definition sends with each list call of a walk that began at this time. */
export function fixedParamsAt(
  { fixedParams, actions }: Pick<Entity, 'fixedParams' | 'actions'>,
  ms: number,
): Params {
  return withTimes(fixedParams, actions.get('list')?.params ?? new Map<string, Param>(), ms);
}

export function withTimes(
  fixed: Params,
  declared: ReadonlyMap<string, Pick<Param, 'type'>>,
  ms: number,
): Params {
  return Object.fromEntries(
    Object.entries(fixed).map(([name, value]) => {
      const param = declared.get(name);
      if (param === undefined || !isClockValue(value, param)) return [name, value];
      // `as`: the definition was checked.
      const text = textAt(value as unknown as ClockValue, ms);
      return [name, param.type === 'integer' ? Number(text) : text];
    }),
  );
}

function textAt({ days, format }: ClockValue, ms: number): string {
  const at = ms + days * dayMs;
  return formats[format](new Date(at).toISOString(), at);
}
