import type { EntityName } from '../core/names.ts';
import type { Secret } from '../core/secret.ts';
import type { Note } from '../definitions/check-names.ts';
import type { Definition, Entity } from '../definitions/definition.ts';
import type { Masks } from '../definitions/mask/masked-definition.ts';
import {
  ruleAt,
  ruleOfPath,
  ruleTree,
  type MaskRule,
  type MaskRules,
} from '../definitions/mask/mask-rules.ts';
import { noSuch } from '../definitions/suggest-name.ts';
import type { ConnectorFile } from './connector-file.ts';
import type { EntityMaskFile, MaskRuleFile } from './mask-file.ts';
import { linkedFields, linkedPaths, type EntityField } from './linked-fields.ts';
import { neededFields, type ReadEntities } from './needed-fields.ts';
import { openRecordMask } from './open-record-mask.ts';

interface Written {
  readonly file: Pick<ConnectorFile, 'mask'>;
  readonly definition: Definition;
  /** The entities that are read. */
  readonly entities: ReadEntities;
  /** Null: there is none, or it is missing here. */
  readonly key: Secret | null;
  /** Of the connector. */
  readonly at: readonly string[];
  readonly note: Note;
  /** Of a server: its clients ask for pages by what they were answered. */
  readonly isServed?: boolean;
}

const maxPathNames = 20;

/** The masks of a connector. A mask that keeps the sync from working as it must is refused, with the reason. */
export function buildMasks(written: Written): Masks {
  const { file, definition, key, at, note } = written;
  const masks = new Map<EntityName, { rules: MaskRules; mask: ReturnType<typeof openRecordMask> }>();
  const names = [...definition.entities.keys()];
  for (const [name, mask] of Object.entries(file.mask)) {
    const entity = definition.entities.get(name as EntityName);
    if (entity === undefined) {
      note([...at, 'mask', name], noSuch(`entity in ${definition.name}`, name, names));
      continue;
    }
    const rules = rulesOf(mask);
    checkPaths(mask, [...at, 'mask', name], note);
    checkNeeded(written, entity, rules);
    masks.set(entity.name, { rules, mask: openRecordMask(rules, key) });
  }
  checkLinked(written, masks);
  if (masks.size > 0 && key === null) {
    note(['mask', 'key'], 'is missing; expected a key, because connectors have a mask');
  }
  return masks;
}

function rulesOf({ fields, unknownFields }: EntityMaskFile): MaskRules {
  return {
    unknownFields,
    fields: new Map(Object.entries(fields).map(([path, rule]) => [path, ruleOf(rule)])),
  };
}

function ruleOf(rule: MaskRuleFile): MaskRule {
  if (rule === 'hash') return { kind: 'hash', as: 'value' };
  if (typeof rule === 'string') return { kind: rule };
  return 'hash' in rule ? { kind: 'hash', as: rule.hash.as } : { kind: 'truncate', length: rule.truncate };
}

function checkPaths({ fields }: EntityMaskFile, at: readonly string[], note: Note): void {
  const paths = Object.keys(fields);
  for (const path of paths) {
    const names = path.split('.');
    const here = [...at, 'fields', path];
    if (names.includes('') || names.length > maxPathNames) {
      note(
        here,
        `expected at most ${maxPathNames} names joined by dots, such as merge_fields.PHONE or properties.*.email`,
      );
    }
    const outer = paths.find((other) => path.startsWith(`${other}.`) && fields[other] !== 'keep');
    if (outer !== undefined) {
      note(here, `has no effect: ${outer} masks all that is in it; leave out one of them`);
    }
  }
}

function checkNeeded(
  { definition, entities, at, note, isServed = false }: Written,
  entity: Entity,
  rules: MaskRules,
): void {
  const tree = ruleTree(rules);
  const place = [...at, 'mask', entity.name];
  const seen = new Set<string>();
  for (const { path, why, mayHash } of neededFields(definition, entity, entities, { isServed })) {
    const rule = ruleAt(rules, tree, path);
    const field = path.join('.');
    if (rule.kind === 'keep' || (mayHash && rule.kind === 'hash') || seen.has(field)) continue;
    if (isFilledIn(entity, field)) continue;
    seen.add(field);
    const others = mayHash ? 'hash or keep it' : 'keep it';
    note(place, `expected ${field} as it comes, got ${rule.kind}: it is ${why}; ${others}`);
  }
  for (const field of entity.parents.flatMap(({ inject }) => [...inject.keys()])) {
    if (ruleAt({ unknownFields: 'keep' }, tree, [field]).kind === 'keep') continue;
    note(
      place,
      `expected ${field} as it is: it is filled in from what the listing is asked for by; leave it out`,
    );
  }
}

/**
 * What is masked in one table is not left in clear in another that holds the same values: they are masked alike, or
 * dropped. What a sync needs in clear is kept, and the config says so.
 */
function checkLinked(written: Written, masks: Masks): void {
  const { definition, entities, at, note } = written;
  for (const [name, { rules }] of masks) {
    const entity = definition.entities.get(name);
    if (entity === undefined) continue;
    for (const path of linkedPaths(definition, entity)) {
      const rule = ruleOfPath(rules, path);
      if (rule.kind === 'keep') continue;
      const missing = linkedFields(definition, entities, { entity, path }).flatMap((other) =>
        missingLine(written, masks, other, rule),
      );
      if (missing.length === 0) continue;
      const masked = `${path} is masked, and fields of other records hold the same values`;
      note([...at, 'mask', name], `${masked}: add ${missing.join(', ')}; or keep ${path}`);
    }
  }
}

/** What the config has to say of a field whose values are masked elsewhere by a rule; empty: it says so. */
function missingLine(
  { definition, entities, isServed = false }: Written,
  masks: Masks,
  { entity, path }: EntityField,
  rule: MaskRule,
): readonly string[] {
  const line = (text: string): string => `${entity.name}: { fields: { ${path}: ${text} } }`;
  const rules = masks.get(entity.name)?.rules ?? noRules;
  const needed = neededFields(definition, entity, entities, { isServed }).find(
    (one) => one.path.join('.') === path && !one.mayHash,
  );
  if (needed !== undefined) {
    return rules.fields.get(path)?.kind === 'keep' ? [] : [`${line('keep')} (it is ${needed.why})`];
  }
  const own = ruleOfPath(rules, path);
  return own.kind === 'drop' || ruleText(own) === ruleText(rule) ? [] : [line(ruleText(rule))];
}

const noRules: MaskRules = { fields: new Map(), unknownFields: 'keep' };

/** As a config has it. */
function ruleText(rule: MaskRule): string {
  if (rule.kind === 'truncate') return `{ truncate: ${rule.length} }`;
  return rule.kind === 'hash' && rule.as !== 'value' ? `{ hash: { as: ${rule.as} } }` : rule.kind;
}

/** From the listing's parameters: it does not come with the record. */
function isFilledIn({ parents, recursive }: Entity, field: string): boolean {
  const filled = parents.every(({ inject }) => inject.has(field)) && parents.length > 0;
  const { rootField, depthField, positionField } = recursive ?? {};
  return filled || [rootField, depthField, positionField].includes(field);
}
