import type { Note } from './check-names.ts';
import type { EntityFile } from './definition-file.ts';
import { noSuch } from './suggest-name.ts';
import type { YamlPath } from './read-yaml.ts';

/** One entity whose parts are held against each other. All places are within it: `['fields', 'id']`. */
export type EntityCheck = ReturnType<typeof openEntityCheck>;

export function openEntityCheck(entity: EntityFile, entityAt: YamlPath, noteInFile: Note) {
  const inFile = (at: YamlPath): YamlPath => [...entityAt, ...at];
  const note: Note = (at, message, ...restsOn) => noteInFile(inFile(at), message, ...restsOn.map(inFile));
  /** Notes a field that the entity does not declare, or declares with another type than these. */
  const field = (at: YamlPath, name: string, types?: readonly string[]): void => {
    const type = fieldType(entity, name);
    if (type === undefined) note(at, noSuch('field', name, Object.keys(entity.fields)), fieldAt(name));
    else if (types?.includes(type) === false) {
      note(at, `expected a field of type ${types.join(' or ')}, ${name} is of type ${type}`, fieldAt(name));
    }
  };
  return {
    entity,
    note,
    field,
    /** The same for each of a list. */
    fields(at: YamlPath, names: readonly string[]): void {
      names.forEach((name, index) => field([...at, index], name));
    },
    /** The same for a parameter of `list` that takes a text. */
    textParam(at: YamlPath, name: string): void {
      const declared = entity.actions.list?.params ?? {};
      const type = declared[name]?.type;
      const problem =
        type === undefined
          ? noSuch('list parameter', name, Object.keys(declared))
          : `expected a list parameter of type string, ${name} is of type ${type}`;
      if (type !== 'string') note(at, problem, listParamAt(name));
    },
  };
}

/** Undefined where the entity declares no such field. */
export function fieldType({ fields }: EntityFile, name: string): EntityFile['fields'][string] | undefined {
  return Object.hasOwn(fields, name) ? fields[name] : undefined;
}

export function fieldAt(name: string): YamlPath {
  return ['fields', name];
}

export function listParamAt(name: string): YamlPath {
  return ['actions', 'list', 'params', name];
}
