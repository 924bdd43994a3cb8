// The package's name and its repository stand in project.json. `node .ci/names.mjs write` puts them into every text
// that has them, `check` ends with 1 where one differs, `release <tag>` also where they are not confirmed or the tag is
// not the version.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';

const [action = '', tag = ''] = process.argv.slice(2);
const { name, repository, confirmed } = JSON.parse(read('project.json'));
const manifest = JSON.parse(read('package.json'));
if (!/^@[a-z0-9][a-z0-9-]*\/[a-z0-9][a-z0-9-]*$/.test(name)) {
  end(`project.json: expected a name with a scope, such as @connector-sync/cli, got ${name}`);
}
if (!/^github\.com\/[\w.-]+\/[\w.-]+$/.test(repository)) {
  end(`project.json: expected a repository such as github.com/owner/name, got ${repository}`);
}

const differing = [...texts()].filter(([file, text]) => text !== read(file));
switch (action) {
  case 'write':
    for (const [file, text] of differing) writeFileSync(file, text);
    break;
  case 'check':
    checkTexts();
    break;
  case 'release':
    checkTexts();
    if (confirmed !== true) {
      end(
        `Nothing is published: ${name} and ${repository} are stand-ins. Once both belong to you, set "confirmed": true in project.json.`,
      );
    }
    if (tag !== `v${manifest.version}`) {
      end(`Nothing is published: the tag is ${tag}, and package.json says ${manifest.version}.`);
    }
    break;
  default:
    end('usage: node .ci/names.mjs write | check | release <tag>');
}

function checkTexts() {
  if (differing.length === 0) return;
  const files = differing.map(([file]) => file).join(', ');
  end(`These differ from project.json: ${files}. Run node .ci/names.mjs write.`);
}

/** Every file that may name them, as it should be. */
function* texts() {
  const address = `https://${repository}`;
  yield [
    'package.json',
    json({
      ...manifest,
      name,
      homepage: `${address}#readme`,
      repository: { type: 'git', url: `git+${address}.git` },
      bugs: { url: `${address}/issues` },
    }),
  ];
  const lock = JSON.parse(read('package-lock.json'));
  const packages = { ...lock.packages, '': { ...lock.packages[''], name } };
  yield ['package-lock.json', json({ ...lock, name, packages })];
  const before = {
    name: manifest.name,
    repository: manifest.repository.url.replace(/^git\+https:\/\/|\.git$/g, ''),
  };
  for (const file of ['Dockerfile', ...filesBelow('.', 1), ...filesBelow('docs'), ...filesBelow('.github')]) {
    yield [file, read(file).replaceAll(before.name, name).replaceAll(before.repository, repository)];
  }
}

function filesBelow(folder, depth = Infinity) {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = folder === '.' ? entry.name : `${folder}/${entry.name}`;
    if (entry.isDirectory()) return depth > 1 ? filesBelow(path, depth - 1) : [];
    return /\.(md|ya?ml)$/.test(entry.name) ? [path] : [];
  });
}

function json(value) {
  return `${JSON.stringify(value, null, 2)}\n`;
}

function read(file) {
  return readFileSync(file, 'utf8');
}

function end(message) {
  console.error(message);
  process.exit(1);
}
