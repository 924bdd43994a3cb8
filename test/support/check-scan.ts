import { isDeepStrictEqual } from 'node:util';
import { isJsonArray, isJsonObject, memberOf, type JsonValue } from '../../src/core/json.ts';
import { parseJsonText } from '../../src/http/lossless-json.ts';
import { textOf, valueOf, type ScannedPage, memberWidth } from '../../src/http/scan-json.ts';

export type Paths = readonly (readonly string[])[];

/** What differs between a scanned page and the same answer read by `parseJsonText`: undefined if nothing. */
export function differenceOf(page: ScannedPage, paths: Paths): string | undefined {
  const text = page.bytes.toString();
  const whole = parseJsonText(text);
  const rest = parseJsonText(page.rest);
  const [records, ...others] = arraysAt(whole, paths);
  if (records === undefined || others.length > 0) return 'an array that is not the only one';
  if (page.starts.length !== page.count || page.ends.length !== page.count) return 'the number of places';
  if (page.firstMember.length !== page.count + 1) return 'the number of first members';
  if (new Set(page.names).size !== page.names.length) return 'a name that comes twice';
  // oxlint-disable-next-line no-control-regex
  if (page.isAscii !== /^[\0-\u007f]*$/.test(text)) return 'isAscii';
  const elements: JsonValue[] = [];
  for (let index = 0; index < page.count; index += 1) {
    const [start = 0, end = 0] = [page.starts[index], page.ends[index]];
    if (!isTight(textOf(page, start, end))) return `the places of element ${index}`;
    const value = valueOf(page, start, end);
    const difference = differenceOfMembers(page, index, value);
    if (difference !== undefined) return `${difference} of element ${index}`;
    elements.push(value);
  }
  const [emptied] = arraysAt(rest, paths);
  if (emptied?.length !== 0) return 'an array that was not emptied';
  // `as`: `parseJsonText` made it, and nothing else has it.
  for (const element of elements) (emptied as JsonValue[]).push(element);
  return isDeepStrictEqual(rest, whole) ? undefined : 'the values';
}

/** The arrays at the paths of an answer. */
export function arraysAt(whole: JsonValue, paths: Paths): readonly (readonly JsonValue[])[] {
  return paths.flatMap((path) => {
    let value: JsonValue | undefined = whole;
    for (const name of path) value = isJsonObject(value) ? memberOf(value, name) : undefined;
    return isJsonArray(value) ? [value] : [];
  });
}

function differenceOfMembers(page: ScannedPage, element: number, value: JsonValue): string | undefined {
  const [first = 0, next = 0] = page.firstMember.subarray(element, element + 2);
  const object: Record<string, JsonValue> = {};
  for (let member = first; member < next; member += 1) {
    const at = member * memberWidth;
    const [number = 0, start = 0, end = 0] = page.members.subarray(at, at + memberWidth);
    const name = page.names[number];
    if (name === undefined) return 'a name';
    const text = textOf(page, start, end);
    if (!isTight(text)) return `the places of "${name}"`;
    const memberValue = valueOf(page, start, end);
    Object.defineProperty(object, name, {
      value: memberValue,
      enumerable: true,
      configurable: true,
      writable: true,
    });
  }
  if (!isJsonObject(value)) return next === first ? undefined : 'members of no object';
  return isDeepStrictEqual(object, value) ? undefined : 'the members';
}

/** Without spaces around it. */
function isTight(text: string): boolean {
  return /^[^ \t\r\n]/.test(text) && /[^ \t\r\n]$/.test(text);
}
