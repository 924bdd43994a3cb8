import { createHmac, hash } from 'node:crypto';
import { writeJson } from '../core/json.ts';
import type { EntityName } from '../core/names.ts';
import { readKey, type Secret } from '../core/secret.ts';
import type { RecordMask } from '../core/records.ts';
import { usage } from '../core/errors.ts';
import type { Note } from '../definitions/check-names.ts';
import type { Definition, Entity } from '../definitions/definition.ts';
import {
  ruleAt,
  ruleOfPath,
  ruleTree,
  compileMask,
  type Masks,
  type MaskRule,
  type MaskRules,
} from '../definitions/record-masks.ts';
import { noSuch } from '../definitions/suggest-name.ts';
import { createSealer, derivedKey } from '../files/sealer.ts';
import type { ConnectorFile, EntityMaskFile, MaskRuleFile } from './settings-file.ts';

interface Written {
  readonly file: Pick<ConnectorFile, 'mask'>;
  readonly definition: Definition;
  /** The entities that are read. */
  readonly entities: ReadEntities;
  /** Null: there is no key, or it is missing here. */
  readonly key: Secret | null;
  /** The path of the connector in the config. */
  readonly at: readonly string[];
  readonly note: Note;
  /** Whether a server uses the masks: its clients request pages by values of earlier answers. */
  readonly isServed?: boolean;
}

const maxPathNames = 20;

/** Builds the masks of a connector. A mask that would break the sync is refused, with the reason. */
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
  for (const field of [entity, ...entity.parents].flatMap(({ inject }) => [...inject.keys()])) {
    if (ruleAt({ unknownFields: 'keep' }, tree, [field]).kind === 'keep') continue;
    note(
      place,
      `expected ${field} as it is: it is filled in from what the listing is asked for by; leave it out`,
    );
  }
}

/**
 * Checks that values which are masked in one table are not stored in clear in another: they are masked alike, or
 * dropped. Values that a sync needs in clear are kept, and the config says so.
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

/** The lines that a config lacks for a field whose values a rule masks elsewhere; empty: none is missing. */
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

/** Writes a rule as in a config. */
function ruleText(rule: MaskRule): string {
  if (rule.kind === 'truncate') return `{ truncate: ${rule.length} }`;
  return rule.kind === 'hash' && rule.as !== 'value' ? `{ hash: { as: ${rule.as} } }` : rule.kind;
}

/** Whether a field is filled from the listing's parameters, and so does not come with the record. */
function isFilledIn({ parents, recursive, inject: own }: Entity, field: string): boolean {
  const filled = own.has(field) || (parents.every(({ inject }) => inject.has(field)) && parents.length > 0);
  const { rootField, depthField, positionField } = recursive ?? {};
  return filled || [rootField, depthField, positionField].includes(field);
}

/** A field, by its path in the records of an entity. */
interface EntityField {
  readonly entity: Entity;
  readonly path: string;
}

/**
 * The other fields that contain the same values, in the entities that are read: the field that this one refers to, and
 * others that refer to it. Fields that parents fill in are left out: no mask may name them.
 */
function linkedFields(
  { entities }: Definition,
  read: ReadonlyMap<EntityName, unknown>,
  { entity, path }: EntityField,
): readonly EntityField[] {
  const end = entity.references.get(path) ?? { entity: entity.name, field: path };
  const isEnd = (to: typeof end): boolean => to.entity === end.entity && to.field === end.field;
  return [...entities.values()]
    .filter(({ name }) => read.has(name))
    .flatMap((other) => [
      ...(other.name === end.entity ? [{ entity: other, path: end.field }] : []),
      ...[...other.references].flatMap(([from, to]) => (isEnd(to) ? [{ entity: other, path: from }] : [])),
    ])
    .filter((other) => other.entity.name !== entity.name || other.path !== path);
}

/** The fields of an entity whose values others may contain too: those of its key, and those that others refer to. */
function linkedPaths({ entities }: Definition, { name, key }: Entity): readonly string[] {
  const referred = [...entities.values()].flatMap(({ references }) =>
    [...references.values()].flatMap((to) => (to.entity === name ? [to.field] : [])),
  );
  return [...new Set([...key, ...referred])];
}

/** The entities that are read, with the parents that they are found by. */
type ReadEntities = ReadonlyMap<EntityName, { readonly parents: readonly EntityName[] }>;

/**
 * The fields of an entity whose clear values a sync needs: to call the service, to recognize records of this kind and
 * changes, or to tell records apart. `chosen`: the entities that are read; `isServed`: clients read them.
 */
function neededFields(
  definition: Definition,
  entity: Entity,
  chosen: ReadEntities,
  { isServed }: { readonly isServed: boolean },
) {
  const { actions, incremental, order, only, recursive, explode, whole, isKeyless, pagination } = entity;
  const download = actions.get('download');
  const key = isKeyless === true ? [] : entity.key;
  const fieldsOf = (some: readonly ({ readonly field: string } | null)[]) =>
    some.map((one) => one?.field ?? []).flat();
  const all: readonly (readonly [fields: Iterable<string>, why: string, mayHash?: boolean])[] = [
    [actions.get('get')?.key.values() ?? [], 'needed to ask for a single record'],
    [download?.key.values() ?? [], 'needed to ask for the file'],
    [download?.file?.version ?? [], 'what tells that a file has changed', true],
    ...childrenOf(definition, entity, chosen).flatMap(
      ({ name, params, when, marker }) =>
        [
          [params.values(), `needed to ask for ${name}`],
          [fieldsOf(when), `what decides whether there are ${name}`],
          [fieldsOf([marker]), `what tells that ${name} have changed`],
        ] as const,
    ),
    [fieldsOf([incremental]), 'the change value that changes are asked for by'],
    [
      isServed && pagination.kind === 'lastRecord' ? [pagination.field] : [],
      'what the next page is asked for by',
    ],
    [fieldsOf([order]), 'what listings are sorted by'],
    [fieldsOf(only), 'what decides which records are read'],
    [fieldsOf(entity.unlisted), 'what tells why a record is not listed'],
    [
      recursive === null ? [] : ['id', recursive.flag, recursive.parentField, recursive.typeField],
      'needed to follow the tree of records',
    ],
    download === undefined
      ? [key, 'part of the key', true]
      : [key, 'part of the key, by which files are stored'],
    [whole, 'what tells that a record came whole', true],
    [
      (explode?.key ?? []).flatMap((name) =>
        explode?.carry.includes(name) ? [] : `${explode?.field}.${name}`,
      ),
      'part of the key',
      true,
    ],
  ];
  return all.flatMap(([fields, why, mayHash = false]) =>
    [...fields].map((field) => ({
      /** The names of the path to it. */
      path: field.split('.'),
      /** The reason, for use in a sentence: "email is ...". */
      why,
      /** Whether a hash does as well as the value. */
      mayHash,
    })),
  );
}

/** Entities that are read below an entity's records, with the link to them. */
function childrenOf(definition: Definition, entity: Entity, chosen: ReadEntities) {
  return [...chosen].flatMap(([name, { parents }]) =>
    parents.includes(entity.name)
      ? (definition.entities.get(name)?.parents ?? [])
          .filter((parent) => parent.entity === entity.name)
          .map((parent) => ({ name, ...parent }))
      : [],
  );
}

/** To be increased when the same rules produce other values: every masked entity is then read in full. */
const maskVersion = 2;

/** The output of a mask. */
const hashedText = /^hmac-[0-9a-f]{8}-[0-9a-f]{64}$/;

/**
 * Opens the mask of one entity. Without the key, which may be missing where nothing is read, it throws instead of
 * masking.
 */
export function openRecordMask(rules: MaskRules, key: Secret | null): RecordMask {
  if (key === null) {
    const nothing = { record: noKey, stored: noKey, rawKey: noKey, seal: noKey, open: noKey };
    return { fingerprint: '', keyId: '', ...nothing };
  }
  // A hash of a constant tells keys apart, and reveals nothing about them.
  const bytes = keyOf(key);
  const keyId = hmac(bytes, 'connector-sync mask key id').slice(0, 8);
  const fields = [...rules.fields].toSorted(([left], [right]) => (left < right ? -1 : 1));
  const about = writeJson([maskVersion, fields, rules.unknownFields, keyId]);
  const fingerprint = hash('sha256', about, 'hex').slice(0, 32);
  const hashOf = (text: string): string => `hmac-${keyId}-${hmac(bytes, text)}`;
  const rawKey = derivedKey(bytes, 'mask bytes');
  // The messages of the sealer are never shown.
  const sealer = createSealer(bytes, { purpose: 'mask positions', otherKey: '', damaged: '' });
  return {
    fingerprint,
    keyId,
    record: compileMask(rules, hashOf),
    stored: compileMask(rules, hashOf, (text) => hashedText.test(text)),
    rawKey: (secret) => hmac(rawKey, `${secret}${fingerprint}`),
    seal: (text) => sealer.seal(text, sealedFor).toString('base64'),
    open: (sealed) => {
      try {
        return sealer.open(Buffer.from(sealed, 'base64'), sealedFor);
      } catch {
        // Sealed with another key, or damaged: the caller starts from the beginning.
        return null;
      }
    },
  };
}

const sealedFor = 'position';

function keyOf(key: Secret): Buffer {
  const bytes = readKey(key.reveal());
  if (bytes === null) throw new TypeError('a key was not checked');
  return bytes;
}

function hmac(key: Buffer, text: string): string {
  return createHmac('sha256', key).update(text).digest('hex');
}

function noKey(): never {
  throw usage('mask.key is missing here: without it no record of a masked entity can be read.');
}

/**
 * Values that masked entities store in clear, perhaps unexpectedly: fields that reveal a masked value, undeclared
 * fields that no rule covers, and rules for unknown fields.
 */
export function maskGaps(
  definition: Definition,
  /** The entities that are read. */
  read: ReadonlyMap<EntityName, unknown>,
  masks: Masks,
  undeclared: readonly { readonly entity: EntityName; readonly field: string }[],
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

function revealing({ reveals, filledFrom, at }: Entity, rules: MaskRules): readonly string[] {
  const tree = ruleTree(rules);
  const isMasked = (field: string): boolean => ruleAt(rules, tree, field.split('.')).kind !== 'keep';
  const pairs = [
    ...[...reveals].map(([field, revealed]) => [field, revealed] as const),
    ...[...filledFrom, ...at].map(([field, source]) => [field, [source]] as const),
  ];
  return pairs.flatMap(([field, revealed]) => {
    const given = isMasked(field) ? [] : revealed.filter(isMasked);
    return given.length === 0 ? [] : [`${field} is stored in clear and gives ${given.join(' and ')} away`];
  });
}

function inClearElsewhere(path: string, others: readonly EntityField[], rules: MaskRules, masks: Masks) {
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
