import type { EntityName } from '../core/names.ts';
import type { Definition, Entity } from '../definitions/definition.ts';
import { ruleAt, ruleOfPath, ruleTree, type MaskRules } from '../definitions/mask/mask-rules.ts';
import type { Masks } from '../definitions/mask/masked-definition.ts';
import { linkedFields, linkedPaths, type EntityField } from './linked-fields.ts';

/** A field that came and that the definition does not declare. */
interface UndeclaredField {
  readonly entity: EntityName;
  readonly field: string;
}

/**
 * What masked entities store in clear although a person may not expect it: fields that give a masked value away, fields
 * that the definition does not declare and no rule covers, and rules for fields that are not known.
 */
export function maskGaps(
  definition: Definition,
  /** The entities that are read. */
  read: ReadonlyMap<EntityName, unknown>,
  masks: Masks,
  undeclared: readonly UndeclaredField[],
): readonly { readonly entity: EntityName; readonly detail: string }[] {
  return [...masks].flatMap(([name, { rules }]) => {
    const entity = definition.entities.get(name);
    if (entity === undefined) return [];
    const met = undeclared.flatMap(({ entity: of, field }) => (of === name ? [field] : []));
    const linked = [...new Set([...linkedPaths(definition, entity), ...entity.references.keys()])].map(
      (path) => ({ path, others: linkedFields(definition, read, { entity, path }) }),
    );
    const details = [
      ...revealing(entity, rules),
      ...linked.flatMap(({ path, others }) => inClearElsewhere(path, others, rules, masks)),
      ...uncovered(rules, met),
      ...unknown(entity, rules, met),
    ];
    return details.map((detail) => ({ entity: name, detail }));
  });
}

function revealing({ reveals, filledFrom }: Entity, rules: MaskRules): readonly string[] {
  const tree = ruleTree(rules);
  const isMasked = (field: string): boolean => ruleAt(rules, tree, [field]).kind !== 'keep';
  const pairs = [
    ...[...reveals].map(([field, revealed]) => [field, revealed] as const),
    ...[...filledFrom].map(([field, source]) => [field, [source]] as const),
  ];
  return pairs.flatMap(([field, revealed]) => {
    const given = isMasked(field) ? [] : revealed.filter(isMasked);
    return given.length === 0 ? [] : [`${field} is stored in clear and gives ${given.join(' and ')} away`];
  });
}

function inClearElsewhere(
  path: string,
  others: readonly EntityField[],
  rules: MaskRules,
  masks: Masks,
): readonly string[] {
  const { kind } = ruleOfPath(rules, path);
  if (kind === 'keep' || kind === 'drop') return [];
  const clear = others.flatMap(({ entity: { name }, path: other }) => {
    const theirs = masks.get(name)?.rules;
    return theirs === undefined || ruleOfPath(theirs, other).kind === 'keep' ? [`${name}.${other}`] : [];
  });
  return clear.length === 0
    ? []
    : [`${path} is masked, and the same values are in clear in ${clear.join(', ')}`];
}

function uncovered(rules: MaskRules, met: readonly string[]): readonly string[] {
  const tree = ruleTree(rules);
  const fields = met.filter((field) => {
    const path = field.split('.');
    const names = new Set([...rules.fields.keys()].map((rule) => rule.split('.')[0]));
    return !names.has(path[0]) && !names.has('*') && ruleAt(rules, tree, path).kind === 'keep';
  });
  if (fields.length === 0) return [];
  return [
    `no rule covers undeclared fields that came: ${fields.map((field) => JSON.stringify(field)).join(', ')}`,
  ];
}

function unknown(entity: Entity, { fields }: MaskRules, met: readonly string[]): readonly string[] {
  const known = new Set([
    ...entity.fields.keys(),
    ...met,
    ...entity.filledFrom.values(),
    ...entity.ignored,
    '*',
  ]);
  const paths = [...fields.keys()].filter((path) => !known.has(path.split('.', 1)[0] ?? ''));
  if (paths.length === 0) return [];
  return [`the definition declares no such field, and none has come: ${paths.join(', ')}`];
}
