import type { JsonObject } from '../../core/json.ts';
import type { Operation } from './operation.ts';
import { columnName, singular, textIn, wordsOf, type FieldType, type Schemas } from './schemas.ts';

/** A field of a record, as the service names it and as a column can. */
interface Field {
  readonly sent: string;
  readonly name: string;
  readonly type: FieldType;
  readonly schema: JsonObject;
  /** The file says that every record has it. */
  readonly isRequired: boolean;
  readonly isNullable: boolean;
}

export interface Fields {
  readonly declared: readonly Field[];
  /** Fields without a possible column name: they are kept in `_extra`. */
  readonly others: readonly string[];
}

/** A file that declares more is a mistake, or hostile. */
const mostFields = 1_000;

/** The fields that the file gives a record. One that would be named as another one stays undeclared. */
export function fieldsOf(record: JsonObject, schemas: Schemas): Fields {
  const required = schemas.required(record);
  const declared: Field[] = [];
  const others: string[] = [];
  const properties = new Map([...schemas.properties(record)].slice(0, mostFields));
  const taken = new Set<string>();
  for (const [sent, schema] of properties) {
    const name = columnName(sent);
    // A field that has its name already keeps it.
    if (name === null || taken.has(name) || (name !== sent && properties.has(name))) others.push(sent);
    else {
      taken.add(name);
      const [isRequired, isNullable] = [required.has(sent), schemas.kinds(schema).has('null')];
      declared.push({ sent, name, type: schemas.typeOf(schema), schema, isRequired, isNullable });
    }
  }
  return { declared, others };
}

type KeyFound =
  | {
      readonly kind: 'found';
      readonly key: readonly string[];
      readonly evidence: string;
    }
  | { readonly kind: 'open'; readonly why: string; readonly candidates: readonly string[] };

const names = ['id', 'gid', 'sid', 'uuid', 'guid', 'uid'];

/**
 * The fields that identify a record, as far as the file shows it; nothing is guessed. In a plain file, which was not
 * written for imports, only a field is a key that every record has, or that reads one record.
 */
export function inferKey(entity: string, fields: Fields, get: Operation | null, isPlain: boolean): KeyFound {
  const asked = neededParams(get);
  const declared = fields.declared.filter(isUsable);
  const isProven = ({ isRequired, isNullable, name }: Field): boolean =>
    !isPlain || (isRequired && !isNullable) || asked.some((param) => namesKey(param.sent, name));
  const usable = declared.filter(isProven);
  const likely = declared.filter(
    ({ isRequired, name }) => isRequired || /(?:^|_)(?:id|key|code|date|name)$/.test(name),
  );
  const candidates = likely.length > 0 ? likely : declared;
  const found = (field: Field, evidence: string): KeyFound => ({
    kind: 'found',
    key: [field.name],
    evidence: `${field.isRequired ? 'required ' : ''}field ${field.sent}${evidence}`,
  });
  for (const name of names) {
    const field = usable.find((one) => one.name === name);
    if (field === undefined) continue;
    if (speaksOfAnother(field, entity)) {
      const why = `its field ${field.sent} seems to be the id of something else: "${textIn(field.schema, 'description')}"`;
      return { kind: 'open', why, candidates: candidates.map((one) => one.name) };
    }
    return found(field, get === null ? '' : '; the service has a get');
  }
  const byGet = usable.find(({ sent }) => asked.some((param) => param.sent === sent));
  if (byGet !== undefined) return found(byGet, ', by which the service gets a record');
  const plain = singular(entity).replaceAll('_', '');
  const own = usable.find(({ name }) =>
    ['id', 'gid'].some((end) => name.replaceAll('_', '') === plain + end),
  );
  if (own !== undefined) return found(own, ', named after the entity');
  const unsure = declared.find((field) => names.includes(field.name) && !isProven(field));
  const why =
    unsure === undefined
      ? 'no field of its records is known to identify them'
      : `its field ${unsure.sent} may be ${unsure.isNullable ? 'null' : 'absent'}, by the file`;
  return { kind: 'open', why, candidates: candidates.map(({ name }) => name) };
}

function isUsable({ type }: Field): boolean {
  return type === 'string' || type === 'integer';
}

const isShared = /\bnot unique\b|\bunique (?:only )?(?:within|per|in|inside|for)\b|\bparent\b/i;
const idOf =
  /\bid(?:entifier)?s? of (?:the|an?) ([a-z][a-z ]{2,60}?)(?: (?:that|who|which|this|to)\b|[.,;(]|$)/i;

/** `id: The id of the user who wrote it`, in an entity of comments; or one that is unique within its order only. */
function speaksOfAnother({ schema }: Field, entity: string): boolean {
  const description = textIn(schema, 'description') ?? '';
  if (isShared.test(description)) return true;
  const of = idOf.exec(description)?.[1];
  if (of === undefined || !/\b(?:that|who|which|this|to)\b/i.test(description)) return false;
  const words = new Set([...wordsOf(entity), ...wordsOf(singular(entity))]);
  return !wordsOf(of).some((word) => words.has(word) || words.has(singular(word)));
}

/**
 * `/blocks/{block_id}` for the listing `/blocks/{block_id}/children` of blocks: records are listed below one of their
 * own kind, so `get` takes the id of the record that it reads, and not that of its parent.
 */
export function getsOwnKind(list: Operation, get: Operation | null): boolean {
  const [param, ...more] = neededParams(get);
  if (get === null || param === undefined || more.length > 0) return false;
  const isBelow = get.path.endsWith(`/{${param.name}}`) && list.path.startsWith(`${get.path}/`);
  return isBelow && wordsOf(param.name).join('_') === `${singular(list.entity)}_id`;
}

/** Parameters that a request for one record requires. */
export function neededParams(get: Operation | null): Operation['params'] {
  return get?.params.filter(({ isRequired, place }) => isRequired && place !== 'header') ?? [];
}

/** `note_id` and `idOrKey` name an `id`; `slug` does not. */
export function namesKey(param: string, key: string): boolean {
  const words = wordsOf(param);
  return words.join('_') === key || words.includes(key) || (key.endsWith('id') && words.at(-1) === 'id');
}
