import { hash } from 'node:crypto';
import { writeJson, isJsonArray, isJsonObject, type JsonObject, type JsonValue } from '../core/json.ts';
import type { EntityName } from '../core/names.ts';
import type { RecordMask, EntityTable, FieldType } from '../core/records.ts';
import { frozen } from './frozen.ts';
import type { Definition, Entity } from './definition.ts';

/** Says how a value is masked. `as`: the form that it is normalized to before it is hashed. */
export type MaskRule =
  | { readonly kind: 'keep' }
  | { readonly kind: 'drop' }
  | { readonly kind: 'hash'; readonly as: HashedAs }
  | { readonly kind: 'truncate'; readonly length: number };

/** `value`: exactly as it came, so that no two values share a hash: keys may differ in case alone. */
type HashedAs = 'value' | 'text' | 'email' | 'phone';

/** The rules of one entity. */
export interface MaskRules {
  /** Rules by path: names joined by dots, `*` for any one name or array position. */
  readonly fields: ReadonlyMap<string, MaskRule>;
  /** Treatment of fields that no rule covers. */
  readonly unknownFields: 'keep' | 'drop';
}

/** Rules in a tree, by the names of their paths. */
interface RuleNode {
  readonly rule: MaskRule | null;
  /** Marks a rule from a path that begins with `*`: it does not apply to fields of the record without members. */
  readonly isAnyField: boolean;
  /** Whether a rule below it does more than keep. */
  readonly masksBelow: boolean;
  readonly names: ReadonlyMap<string, RuleNode>;
  readonly any: RuleNode | null;
}

export function ruleTree({ fields }: Pick<MaskRules, 'fields'>): RuleNode {
  const rules = [...fields].map(([path, rule]) => ({ names: path.split('.'), rule }));
  return nodeOf(rules, 0);
}

type Remaining = readonly { readonly names: readonly string[]; readonly rule: MaskRule }[];

function nodeOf(rules: Remaining, depth: number, isAnyField = false): RuleNode {
  const below = new Map<string, { names: readonly string[]; rule: MaskRule }[]>();
  for (const {
    names: [first, ...rest],
    rule,
  } of rules) {
    if (first === undefined) continue;
    below.set(first, [...(below.get(first) ?? []), { names: rest, rule }]);
  }
  const any = below.get('*');
  below.delete('*');
  return {
    rule: rules.find(({ names }) => names.length === 0)?.rule ?? null,
    isAnyField,
    masksBelow: rules.some(({ names, rule }) => names.length > 0 && rule.kind !== 'keep'),
    names: new Map([...below].map(([name, inner]) => [name, nodeOf(inner, depth + 1)])),
    any: any === undefined ? null : nodeOf(any, depth + 1, depth === 0),
  };
}

/**
 * Finds the rules for a member: a rule that names it takes precedence over one with `*`. A member's name may contain
 * dots; a rule that ends within it applies to the whole member.
 */
function nodesAt(nodes: readonly RuleNode[], name: string): readonly RuleNode[] {
  let found = nodes;
  for (const part of name.includes('.') ? name.split('.') : [name]) {
    if (found !== nodes && found.some(({ rule }) => rule !== null && rule.kind !== 'keep')) return found;
    found = [
      ...found.flatMap(({ names }) => names.get(part) ?? []),
      ...found.flatMap(({ any }) => (any === null ? [] : [any])),
    ];
  }
  return found;
}

function ruleOf(nodes: readonly RuleNode[]): MaskRule | null {
  return nodes.find(({ rule }) => rule !== null)?.rule ?? null;
}

/**
 * Finds the treatment of the value at a path: the first rule on the way that does more than keep. A path leads through
 * arrays without naming positions in them.
 */
export function ruleAt(
  { unknownFields }: Pick<MaskRules, 'unknownFields'>,
  tree: RuleNode,
  path: readonly string[],
): MaskRule {
  let nodes: readonly RuleNode[] = [tree];
  let isKept = unknownFields === 'keep';
  for (const [depth, name] of path.entries()) {
    nodes = nodesAt(depth === 0 ? nodes : withElements(nodes), name);
    const rule = ruleOf(nodes);
    if (rule !== null && rule.kind !== 'keep') return rule;
    isKept ||= rule !== null;
    if (nodes.length === 0 && !isKept) return { kind: 'drop' };
  }
  return { kind: 'keep' };
}

/** Like `ruleAt`, for this path alone. */
export function ruleOfPath(rules: MaskRules, path: string): MaskRule {
  return ruleAt(rules, ruleTree(rules), path.split('.'));
}

function withElements(nodes: readonly RuleNode[]): readonly RuleNode[] {
  const elements = nodes.flatMap(({ any }) => (any === null ? [] : [any]));
  return elements.length === 0 ? nodes : [...nodes, ...withElements(elements)];
}

/** Values nested deeper are dropped where a rule leads to them: records of this depth are not stored. */
const maxDepth = 200;

/** Replaces a text by its hash; never called with ''. */
type HashText = (text: string) => string;

/**
 * Masks records. A value that a rule cannot be applied to is dropped: a text where a rule leads to members of an
 * object, or an object that is to be truncated. `isHashed`: recognizes texts that are hashes already, which stay.
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

  /** Undefined: the value is dropped. */
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

/** Keeps the first characters of a text or of a number's digits; of an array, of each element. */
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
 * The text that is hashed for a value; equal for values with the same meaning. For a value other than a text it is the
 * JSON text. Null: there is nothing to hash.
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

/** The masks of a connector's entities. */
export type Masks = ReadonlyMap<EntityName, { readonly rules: MaskRules; readonly mask: RecordMask }>;

/**
 * The definition with its masked entities: a hashed or truncated field has a text column, and a change of masks counts
 * as a change of the definition.
 */
export function maskedDefinition(definition: Definition, masks: Masks): Definition {
  if (masks.size === 0) return definition;
  const known = made.get(masks)?.get(definition);
  if (known !== undefined) return known;
  const entities = new Map(
    [...definition.entities].map(([name, entity]) => {
      const masked = masks.get(name);
      return [name, masked === undefined ? entity : maskedEntity(entity, masked)] as const;
    }),
  );
  const readings = [...masks].map(([name, { mask }]) => [name, mask.fingerprint]);
  const contentHash = hash('sha256', writeJson([definition.contentHash, readings]), 'hex');
  const masked = frozen({ ...definition, entities, contentHash });
  made.set(masks, new Map([...(made.get(masks) ?? []), [definition, masked]]));
  return masked;
}

/**
 * Removes the masks before a definition is passed to another process, which gets masked records: a mask has functions
 * and cannot be passed.
 */
export function withoutMasks(definition: Definition): Definition {
  const entities = [...definition.entities].map(([name, entity]) => [name, withoutMask(entity)] as const);
  return { ...definition, entities: new Map(entities) };
}

/** Like `withoutMasks`, for one entity. */
export function withoutMask(entity: Entity): Entity {
  return { ...entity, mask: null };
}

/** Thousands of connectors may share their masks. */
const made = new WeakMap<Masks, ReadonlyMap<Definition, Definition>>();

function maskedEntity(entity: Entity, { rules, mask }: { rules: MaskRules; mask: RecordMask }): Entity {
  const { table, explodedTable, explode, searchable } = entity;
  const tree = ruleTree(rules);
  const typeAt = (type: FieldType, ...path: readonly string[]): FieldType => {
    const { kind } = ruleAt(rules, tree, path);
    // The elements of an array are truncated one by one.
    const isText = kind === 'hash' || (kind === 'truncate' && type !== 'array' && type !== 'any');
    return isText ? 'string' : type;
  };
  const carried = new Set(explode?.carry);
  const elementPath = (name: string) => (carried.has(name) ? [name] : [explode?.field ?? '', name]);
  return {
    ...entity,
    mask,
    table: withTypes(table, (name, type) => typeAt(type, name)),
    explodedTable:
      explodedTable && withTypes(explodedTable, (name, type) => typeAt(type, ...elementPath(name))),
    searchable: new Map(
      [...searchable].map(([name, field]) => {
        const isText = field.from.some(
          (from) =>
            typeAt('integer', from) === 'string' || typeAt('integer', ...elementPath(from)) === 'string',
        );
        return [name, isText ? { ...field, type: 'string' as const } : field];
      }),
    ),
  };
}

function withTypes(table: EntityTable, typeOf: (name: string, type: FieldType) => FieldType): EntityTable {
  return {
    ...table,
    columns: table.columns.map((column) => ({ ...column, type: typeOf(column.name, column.type) })),
  };
}
