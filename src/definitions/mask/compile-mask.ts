import { writeJson } from '../../core/json-text.ts';
import { isJsonArray, isJsonObject, type JsonObject, type JsonValue } from '../../core/json.ts';
import {
  type HashedAs,
  nodesAt,
  ruleOf,
  ruleTree,
  type MaskRule,
  type MaskRules,
  type RuleNode,
} from './mask-rules.ts';

/** Values nested deeper are dropped where a rule leads to them: records this deep are not stored. */
const maxDepth = 200;

/** What stands for a text; '' is never asked for. */
export type HashText = (text: string) => string;

/**
 * Masks records. What a rule cannot be used on is dropped: a text where a rule leads on to members of an object, an
 * object that is to be truncated. `isHashed`: texts that are hashes already, and stay.
 */
export function compileMask(
  rules: MaskRules,
  hashText: HashText,
  isHashed: (text: string) => boolean = () => false,
): (record: JsonValue) => JsonValue {
  const root = [ruleTree(rules)];
  const isAllowList = rules.unknownFields === 'drop';
  return (record) => (isJsonObject(record) ? maskObject(record, root, isAllowList, 0) : null);

  function maskObject(object: JsonObject, nodes: Nodes, drops: boolean, depth: number): JsonObject {
    // Null-prototype: a name such as `__proto__` is a member like any other.
    const masked = Object.create(null) as Record<string, JsonValue>;
    let isSame = true;
    for (const [name, member] of Object.entries(object)) {
      const value = maskValue(member, nodesAt(nodes, name), drops, depth + 1);
      if (value !== member) isSame = false;
      if (value !== undefined) masked[name] = value;
    }
    return isSame ? object : masked;
  }

  function maskArray(array: readonly JsonValue[], nodes: Nodes, drops: boolean, depth: number) {
    const masked = array.flatMap((element, index) => {
      // A path names the members of an array's elements, too: `contacts.email`.
      const value = maskValue(element, [...nodesAt(nodes, String(index)), ...nodes], drops, depth + 1);
      return value === undefined ? [] : [value];
    });
    const isSame = masked.length === array.length && masked.every((value, index) => value === array[index]);
    return isSame ? array : masked;
  }

  /** Undefined: it is dropped. */
  function maskValue(value: JsonValue, nodes: Nodes, drops: boolean, depth: number): JsonValue | undefined {
    if (nodes.length === 0) return drops ? undefined : value;
    const rule = ruleOf(nodes);
    if (rule !== null && rule.kind !== 'keep') return byRule(value, rule);
    if (value === null) return drops && rule === null ? undefined : null;
    const dropsBelow = drops && rule === null;
    const leadsOn = nodes.some(({ names, any }) => names.size > 0 || any !== null);
    if (!leadsOn) return value;
    if (depth >= maxDepth) return undefined;
    if (isJsonArray(value)) return maskArray(value, nodes, dropsBelow, depth);
    if (isJsonObject(value)) return maskObject(value, nodes, dropsBelow, depth);
    if (rule !== null) return value;
    return drops || nodes.some(({ isAnyField, masksBelow }) => masksBelow && !isAnyField) ? undefined : value;
  }

  function byRule(
    value: JsonValue,
    rule: Exclude<MaskRule, { readonly kind: 'keep' }>,
  ): JsonValue | undefined {
    if (rule.kind === 'drop') return undefined;
    if (value === null) return null;
    if (rule.kind === 'truncate') return truncated(value, rule.length, 0);
    if (isDeeper(value, maxDepth)) return undefined;
    if (typeof value === 'string' && isHashed(value)) return value;
    const text = normalText(value, rule.as);
    return text === null ? '' : hashText(text);
  }
}

type Nodes = readonly RuleNode[];

/** The first characters of a text or of a number's digits; of an array, of each element. */
function truncated(value: JsonValue, length: number, depth: number): JsonValue | undefined {
  if (value === null) return null;
  if (isJsonArray(value)) {
    if (depth >= maxDepth) return undefined;
    return value.map((element) => truncated(element, length, depth + 1) ?? null);
  }
  if (isJsonObject(value)) return undefined;
  return Array.from(String(value)).slice(0, length).join('');
}

function isDeeper(value: JsonValue, levels: number): boolean {
  if (value === null || typeof value !== 'object') return false;
  if (levels <= 0) return true;
  return Object.values(value).some((inner: JsonValue) => isDeeper(inner, levels - 1));
}

/**
 * The text that is hashed in place of a value, equal for values that mean the same: of what is no text its JSON text.
 * Null: there is nothing to hash.
 */
function normalText(value: Exclude<JsonValue, null>, as: HashedAs): string | null {
  const written = typeof value === 'string' ? value : writeJson(value);
  const text = as === 'value' ? written : written.normalize('NFKC').trim().toLowerCase();
  if (text === '') return null;
  return as === 'phone' ? phoneText(text) : as === 'email' ? emailText(text) : text;
}

/** `Ann <Ann@Example.com>` and `mailto:ann@example.com` are one address. */
function emailText(text: string): string {
  const start = text.endsWith('>') ? text.lastIndexOf('<') : -1;
  const address = start === -1 ? text : text.slice(start + 1, -1);
  return address.replace(/^mailto:/, '').trim();
}

/** The digits, with `+` where the number says its country: `+1 (555) 010-9999` and `001 555 0109999` are one number. */
function phoneText(text: string): string {
  const digits = text.replaceAll(/\D/g, '');
  if (digits === '') return text;
  const isInternational = /^\D*\+/.test(text);
  if (isInternational) return `+${digits}`;
  return digits.startsWith('00') ? `+${digits.slice(2)}` : digits;
}
