import type { Operation } from './operation.ts';
import type { Parameter } from './parameter.ts';
import { oneLine, textsIn, wordsOf } from './parts.ts';

/** What a person has to decide for one entity, and what could be sent. */
export interface Undecided {
  readonly name: string;
  readonly why: string;
  readonly choices: readonly string[];
}

/** What the file says or shows of a listing that is not all there is, unless a parameter is sent; null: nothing. */
export function leftOutBy(param: Parameter, { action, description, onePage }: Operation): Undecided | null {
  const { name, fallback, schema } = param;
  const asked = (why: string, choices: readonly string[]): Undecided => ({
    name,
    why,
    choices,
  });
  const value = typeof fallback === 'string' ? oneLine(fallback, 200) : null;
  // In a query language, whatever pages follow.
  if (value !== null && /\blimit\s+\d/i.test(value)) {
    return asked(`its default lists so many records only (${oneLine(value, 120)})`, [value]);
  }
  // `jql`: a search without it lists nothing, or refuses.
  if (action === 'api_search' && fallback === undefined && /^[a-z]*ql$/i.test(name)) {
    return asked(`it is a search for what ${name} says (${oneLine(param.description, 120)})`, []);
  }
  const whole = value === null || isForm(name) ? null : wholeChoice(schema);
  if (value !== null && whole !== null && !isWhole(value)) {
    return asked(`its default (${value}) lists less than ${whole}`, [whole, value]);
  }
  if (fallback !== undefined) return null;
  const sentence =
    saidToLeaveOut(param.description) ?? (names(description, name) ? saidToLeaveOut(description) : null);
  if (sentence === null && isWindow(onePage ?? '') && names(onePage ?? '', name)) {
    return asked(`it bounds what is listed ("${oneLine(onePage ?? '', 200)}")`, choicesFor(param));
  }
  if (sentence === null) return null;
  return asked(`without it records are left out ("${oneLine(sentence, 120)}")`, choicesFor(param));
}

/** The sentence of a description by which a listing leaves records out, or refuses to list them all; null: none. */
export function saidToLeaveOut(description: string): string | null {
  return description.split(/(?<=[.!?])\s+/).find(leavesOut) ?? null;
}

/** Without a filter, such a listing answers with an error. */
export function saidToNeedFilter(description: string): string | null {
  const found = description
    .split(/(?<=[.!?])\s+/)
    .find((one) => /\bat least one\b/i.test(one) && /\b(?:filter|criterion|criteria)\b/i.test(one));
  return found ?? null;
}

const unsaid =
  /\bby default\b|\bdefault (?:query|filter)\b|\b(?:if|when|unless) (?:it is |they are )?(?:no|not|none|omitted|unspecified|absent|empty)\b/i;
const part =
  /\b(?:exclud\w*|only|past \d+|last \d+|not|never|implied|hidden|omits|without)\b|\bdefault (?:query|filter)\b/i;

function leavesOut(sentence: string): boolean {
  const match = unsaid.exec(sentence);
  if (match === null) return false;
  const others = /^default/i.test(match[0]) ? sentence : sentence.replace(match[0], '');
  return part.test(others);
}

/** One answer has everything of a time that the call names: what it has otherwise is for the service to choose. */
function isWindow(onePage: string): boolean {
  return /\bscoped to the requested\b/i.test(onePage);
}

/** `status`, `?status=`: not the middle of another name. */
function names(description: string, name: string): boolean {
  return description.split(/[^\w.[\]-]+/).some((word) => word.replace(/[.]+$/, '') === name);
}

function wholeChoice(schema: Parameter['schema']): string | null {
  const found = textsIn(schema, 'enum').filter(isWhole);
  // Both: how several conditions are put together.
  return found.length === 1 ? (found[0] ?? null) : null;
}

function isWhole(choice: string): boolean {
  return /^(?:all|any)$/i.test(choice);
}

const form =
  /\b(?:sort|order|direction|format|fields|include|expand|lang|language|locale|units?|granularity|interval|mode)\b/;

/** It says what records look like, and not which of them are listed. */
export function isForm(name: string): boolean {
  return form.test(wordsOf(name).join(' '));
}

function choicesFor({ schema, type }: Parameter): readonly string[] {
  const stated = choicesOf(schema);
  if (stated.length > 0) return stated;
  if (type === 'boolean') return ['true'];
  return schema['format'] === 'date-time' ? ['1970-01-01T00:00:00Z'] : [];
}

/** The first of the values that the file permits. */
export function choicesOf(schema: Parameter['schema']): readonly string[] {
  return textsIn(schema, 'enum')
    .slice(0, 20)
    .map((choice) => oneLine(choice, 80));
}
