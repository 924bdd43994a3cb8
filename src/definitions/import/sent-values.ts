import type { JsonObject, JsonValue } from '../../core/json.ts';
import type { Mode, Sources } from './modes.ts';
import type { Operation } from './operation.ts';
import type { Paging } from './paging.ts';
import type { Parameter } from './parameter.ts';
import { holdsTemplate, oneLine } from './parts.ts';

/** By parameter: what is sent with every call, and where it is from. */
export type FixedValues = ReadonlyMap<string, FixedValue>;

interface FixedValue {
  readonly value: JsonValue;
  readonly evidence: string;
  /** A time of the clock: what is listed moves with it. */
  readonly isClock?: true;
}

/**
 * What is sent with every call, and the required parameters that need a value of their own for each listing. `dated`: a
 * person has to say for which time.
 */
export function valuesSent(
  list: Operation,
  paging: Paging | null,
  mode: Mode,
  { answers, signedHeaders }: Sources,
) {
  const ofPaging = new Set([
    paging?.size?.param.name,
    paging !== null && 'param' in paging ? paging.param?.name : undefined,
  ]);
  const fixed = new Map<string, FixedValue>();
  const open: Parameter[] = [];
  const dated: Parameter[] = [];
  const values = { ...answers.values, ...answers.entities[list.entity]?.values };
  for (const param of list.params) {
    const { name, fallback, isRequired, place } = param;
    if (ofPaging.has(name) || (place === 'header' && signedHeaders.has(name.toLowerCase()))) continue;
    if (param.isFilled && mode.name === 'hosted') continue;
    const answer = Object.hasOwn(values, name) ? values[name] : undefined;
    const time = clockDefault(fallback);
    if (answer !== undefined) fixed.set(name, { value: answer, evidence: 'answered' });
    else if (time !== null) {
      const evidence = 'its default in the file, computed from the clock';
      fixed.set(name, { value: time, evidence, isClock: true });
    } else if (holdsTemplate(fallback)) {
      const why = `the default of ${name} is computed by a template: ${oneLine(JSON.stringify(fallback), 80)}`;
      return { fixed, open, dated, refused: why };
    } else if (place === 'header' && fallback !== undefined) continue;
    else if (isRequired && (fallback === undefined || isEmpty(fallback))) open.push(param);
    else if (isTimeIn(param)) dated.push(param);
    else if (fallback !== undefined && fallback !== null && param.type !== 'number' && !param.isSpread) {
      fixed.set(name, { value: fallback, evidence: 'its default in the file' });
    }
  }
  return { fixed, open, dated, refused: null };
}

/** A fixed day in the default: it leaves out what is older or newer, and the file gives it as an example only. */
function isTimeIn({ name, fallback }: Parameter): boolean {
  const text = JSON.stringify(fallback ?? null);
  return /\b(?:19|20)\d\d-[01]\d|\byear:(?:19|20)\d\d/.test(text) && !/version|revision/i.test(name);
}

/** A default that only fills its place: `''`, `List()`. */
function isEmpty(value: JsonValue): boolean {
  return value === null || (typeof value === 'string' && /^(?:|\[\]|\{\}|List\(\))$/.test(value));
}

const clockFormats: Readonly<Record<string, string>> = {
  '%Y-%m-%d': 'date',
  '%Y%m%d': 'compactDate',
  '%Y%m%dT%H': 'compactHour',
  '%Y-%m-%dT%H:%M:%SZ': 'dateTime',
};

const clockForm =
  /^\{\{ *(?:now_utc\(\)|\(now_utc\(\) *([+-]) *duration\('P(\d{1,4})D'\)\))\.strftime\('([^']+)'\) *\}\}$/;

/**
 * A default that is a time so many days before or after now, as a definition says it: the one kind of template that is
 * known, matched and never run. Null: it is none.
 */
function clockDefault(value: JsonValue | undefined): JsonObject | null {
  const [whole, sign, days = '0', written = ''] =
    clockForm.exec(typeof value === 'string' ? value : '') ?? [];
  const format = Object.hasOwn(clockFormats, written) ? clockFormats[written] : undefined;
  if (whole === undefined || format === undefined) return null;
  return { days: sign === '-' ? -Number(days) : Number(days), format };
}
