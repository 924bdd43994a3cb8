import type { Operation } from './describe-operation.ts';

/** The example of an operation as a command for a shell, with `$TOKEN` for the token. */
export function exampleCurl(method: string, path: string, operation: Operation, baseUrl: string): string {
  const query = operation.parameters
    .filter(({ in: place, example }) => place === 'query' && example !== undefined)
    .map(({ name, example = '' }) => `${name}=${encodeURIComponent(example)}`)
    .join('&');
  const filled = operation.parameters
    .filter(({ in: place }) => place === 'path')
    .reduce((text, { name, example }) => text.replace(`{${name}}`, String(example ?? name)), path);
  const url = `${baseUrl}${filled}${query === '' ? '' : `?${query}`}`;
  const body = operation.requestBody?.content['application/json'].example;
  return [
    `curl -s${method === 'get' || (method === 'post' && body !== undefined) ? '' : ` -X ${method.toUpperCase()}`} ${quoted(url)}`,
    ...(operation['x-access'] === 'public' ? [] : ['-H "Authorization: Bearer $TOKEN"']),
    ...(body === undefined
      ? []
      : [`-H 'Content-Type: application/json'`, `-d ${quoted(JSON.stringify(body))}`]),
  ].join(' \\\n  ');
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}
