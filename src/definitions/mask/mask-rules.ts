/** What becomes of a value. `as`: how it is brought into one form before it is hashed. */
export type MaskRule =
  | { readonly kind: 'keep' }
  | { readonly kind: 'drop' }
  | { readonly kind: 'hash'; readonly as: HashedAs }
  | { readonly kind: 'truncate'; readonly length: number };

/** `value`: exactly as it came, so that no two values have one hash: keys may differ in case alone. */
export type HashedAs = 'value' | 'text' | 'email' | 'phone';

/** The rules of one entity. */
export interface MaskRules {
  /** By path: names joined by dots, `*` for any one name or place in an array. */
  readonly fields: ReadonlyMap<string, MaskRule>;
  /** What becomes of fields that no rule covers. */
  readonly unknownFields: 'keep' | 'drop';
}

/** Rules by the names on the way to them. */
export interface RuleNode {
  readonly rule: MaskRule | null;
  /** `*` at the beginning of a path: fields of the record that hold no members are not meant. */
  readonly isAnyField: boolean;
  /** Whether a rule below it does more than keep what it finds. */
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
 * What the rules say of a member: of one that is named before one that `*` stands for. A member's own name may have
 * dots in it; a rule that ends within it holds for all of it.
 */
export function nodesAt(nodes: readonly RuleNode[], name: string): readonly RuleNode[] {
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

export function ruleOf(nodes: readonly RuleNode[]): MaskRule | null {
  return nodes.find(({ rule }) => rule !== null)?.rule ?? null;
}

/**
 * What becomes of the value at a path, by the first rule on the way that does not keep what it finds. A path leads
 * through arrays without naming places in them.
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

/** As `ruleAt`, for one path alone. */
export function ruleOfPath(rules: MaskRules, path: string): MaskRule {
  return ruleAt(rules, ruleTree(rules), path.split('.'));
}

function withElements(nodes: readonly RuleNode[]): readonly RuleNode[] {
  const elements = nodes.flatMap(({ any }) => (any === null ? [] : [any]));
  return elements.length === 0 ? nodes : [...nodes, ...withElements(elements)];
}
