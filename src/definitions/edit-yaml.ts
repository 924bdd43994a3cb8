import { isDeepStrictEqual } from 'node:util';
import {
  isCollection,
  isMap,
  isNode,
  isPair,
  isScalar,
  parseDocument,
  stringify,
  type Pair,
  type YAMLMap,
} from 'yaml';
import { parseYaml, yamlSyntax } from './read-yaml.ts';

/**
 * Returns the text of a YAML file with an additional entry at the end of a top-level map. Every other byte stays:
 * comments, order, quotes. Null where the file is written in a way that this cannot keep: on one line, as JSON.
 */
export function withYamlEntry(text: string, top: string, name: string, value: object): string | null {
  const { map, keyEnd } = topMap(text, top);
  const last = map?.items.at(-1);
  return checked(text, added(), top, (members) => ({ ...members, [name]: value }));

  function added(): string {
    if (map === null || last === undefined) {
      // Nothing, `connectors:` or `connectors: {}`.
      const body = blockOf(text, '  ', name, value);
      if (keyEnd === null) {
        const end = text === '' || text.endsWith('\n') ? '' : newLineOf(text);
        const gap = text === '' ? '' : newLineOf(text);
        return [text, end, gap, top, ':', newLineOf(text), body, newLineOf(text)].join('');
      }
      const [, to] = map === null ? [keyEnd, keyEnd] : rangeOf(map);
      return withLines(text.slice(0, keyEnd) + text.slice(to), keyEnd, body);
    }
    const start = startOf(last);
    const indent = text.slice(text.lastIndexOf('\n', start - 1) + 1, start);
    const other = map.items.at(-2);
    const isSpaced = other !== undefined && /\n\s*\n/.test(text.slice(endOf(other), start));
    const gap = isSpaced ? newLineOf(text) : '';
    return withLines(text, endOf(last), gap + blockOf(text, indent, name, value));
  }
}

/** Returns the text with a new top-level list of one value, as a block above `sinks`; null as `withYamlEntry`. */
export function withYamlList(text: string, top: string, value: string): string | null {
  const line = `${top}: [${JSON.stringify(value)}]`;
  const at = text.search(/(?<=^(?:#.*\n)*|\n\r?\n)sinks:/);
  const edited =
    at === -1 ? `${text.trimEnd()}\n\n${line}\n` : `${text.slice(0, at)}${line}\n\n${text.slice(at)}`;
  return checked(text, edited, top, () => [value]);
}

/**
 * Returns the text without this entry. Comments around it stay, those inside it are removed. Null also where there is
 * no such entry.
 */
export function withoutYamlEntry(text: string, top: string, name: string): string | null {
  const { map, keyEnd } = topMap(text, top);
  const at = map?.items.findIndex((pair) => keyOf(pair) === name) ?? -1;
  const pair = map?.items[at];
  if (map === null || keyEnd === null || pair === undefined) return null;
  return checked(text, removed(map, pair, keyEnd), top, (members) =>
    Object.fromEntries(Object.entries(members).filter(([key]) => key !== name)),
  );

  function removed({ items }: YAMLMap, gone: Pair, colon: number): string {
    const [start, end] = [startOf(gone), endOf(gone)];
    const from = text.lastIndexOf('\n', start - 1) + 1;
    const lineEnd = text.indexOf('\n', end);
    const to = lineEnd === -1 ? text.length : lineEnd + 1;
    // Blank lines before and after the entry become one.
    const gap = /\n(\r?\n)$/.exec(text.slice(0, from))?.[1] ?? '';
    const isDouble = gap !== '' && /^(?:\r?\n|$)/.test(text.slice(to));
    const rest = text.slice(0, isDouble ? from - gap.length : from) + text.slice(to);
    return items.length > 1 ? rest : `${rest.slice(0, colon)} {}${rest.slice(colon)}`;
  }
}

/**
 * Returns the text with another value of one member of an entry; null: without it. Comments around it stay, those
 * inside the former value (and beside one that goes) are removed. Null as `withYamlEntry`, and where there is no such
 * entry.
 */
export function withYamlMember(
  text: string,
  [top, name, key]: readonly [top: string, name: string, key: string],
  value: object | null,
): string | null {
  const entry = topMap(text, top).map?.items.find((pair) => keyOf(pair) === name)?.value;
  if (!isMap(entry)) return null;
  const { items, flow: isFlow = false } = entry;
  const at = items.findIndex((pair) => keyOf(pair) === key);
  const written = value === null ? '' : `${key}: ${stringify(value, flowStyle).trimEnd()}`;
  return checked(text, edited(), top, (members) =>
    Object.fromEntries(
      Object.entries(members).map(([one, own]) => [one, one === name ? withMember(own, key, value) : own]),
    ),
  );

  function edited(): string {
    const [pair, before, after] = [items[at], items[at - 1], items[at + 1]];
    if (pair === undefined) {
      const last = items.at(-1);
      if (value === null || last === undefined) return text;
      if (isFlow) return spliced(endOf(last), endOf(last), `, ${written}`);
      const start = startOf(last);
      return withLines(text, endOf(last), text.slice(lineStart(start), start) + written);
    }
    if (value !== null) return spliced(startOf(pair), endOf(pair), written);
    const lineEnd = text.indexOf('\n', endOf(pair)) + 1;
    if (!isFlow) return spliced(lineStart(startOf(pair)), lineEnd === 0 ? text.length : lineEnd, '');
    if (after !== undefined) return spliced(startOf(pair), startOf(after), '');
    return spliced(before === undefined ? startOf(pair) : endOf(before), endOf(pair), '');
  }

  function spliced(from: number, to: number, between: string): string {
    return text.slice(0, from) + between + text.slice(to);
  }

  function lineStart(position: number): number {
    return text.lastIndexOf('\n', position - 1) + 1;
  }
}

const flowStyle = { collectionStyle: 'flow', lineWidth: 0 } as const;

function withMember(entry: unknown, key: string, value: object | null): object {
  const others = Object.entries(Object(entry) as object).filter(([one]) => value !== null || one !== key);
  return { ...Object.fromEntries(others), ...(value === null ? {} : { [key]: value }) };
}

/** The lines of an entry below a top-level key, for a person to paste. */
export function yamlEntry(top: string, name: string, value: object): string {
  return `${top}:\n${blockOf('', '  ', name, value)}\n`;
}

/** The map below a top-level key, and the end of that key, colon included; null: there is none. */
function topMap(text: string, top: string): { readonly map: YAMLMap | null; readonly keyEnd: number | null } {
  const { contents } = parseDocument(text, yamlSyntax);
  const pair = isMap(contents) ? contents.items.find((one) => keyOf(one) === top) : undefined;
  if (pair === undefined || !isScalar(pair.key)) return { map: null, keyEnd: null };
  const keyEnd = text.indexOf(':', rangeOf(pair.key)[1]) + 1;
  return { map: isMap(pair.value) ? pair.value : null, keyEnd };
}

function keyOf({ key }: Pair): string | null {
  return isScalar(key) ? String(key.value) : null;
}

/** The range of a node in the text. */
function rangeOf(node: unknown): readonly [from: number, to: number] {
  const [from = 0, to = 0] = isNode(node) ? (node.range ?? []) : [];
  return [from, to];
}

function startOf({ key }: Pair): number {
  return rangeOf(key)[0];
}

/** The position after the last character of a pair: comments below it belong to the next entry. */
function endOf({ key, value }: Pair): number {
  return Math.max(rangeOf(key)[1], endOfNode(value));
}

function endOfNode(node: unknown): number {
  const last: unknown = isCollection(node) && node.flow !== true ? node.items.at(-1) : undefined;
  if (isPair(last)) return endOf(last);
  return last === undefined ? rangeOf(node)[1] : endOfNode(last);
}

function newLineOf(text: string): string {
  return text.includes('\r\n') ? '\r\n' : '\n';
}

function blockOf(text: string, indent: string, name: string, value: object): string {
  const lines = stringify({ [name]: value }, { lineWidth: 0 })
    .trimEnd()
    .split('\n');
  return lines.map((line) => `${indent}${line}`).join(newLineOf(text));
}

/** Inserts lines below the line in which the text before `end` ends. */
function withLines(text: string, end: number, lines: string): string {
  const before = text.slice(0, end).trimEnd();
  const lineEnd = text.slice(before.length).search(/\r?\n|$/);
  const at = before.length + lineEnd;
  return `${text.slice(0, at)}${newLineOf(text)}${lines}${text.slice(at)}`;
}

/** Returns the edited text if its data differ from the former only by this change; else null. */
function checked(before: string, after: string, top: string, change: (members: object) => object) {
  const [was, is] = [before, after].map((text): unknown => parseYaml('', text).data ?? {});
  if (typeof was !== 'object' || was === null) return null;
  const members: unknown = Object.entries(was).find(([key]) => key === top)?.[1];
  const wanted = { ...was, [top]: change(typeof members === 'object' && members !== null ? members : {}) };
  return isDeepStrictEqual(is, wanted) ? after : null;
}
