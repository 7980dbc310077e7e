/** Longest part of a word that is compared: a crude stem that joins "licença", "licenças" and "licenciamento". */
const STEM_LENGTH = 6;

/** Portuguese and English words that say nothing about what a sentence is about, folded as `wordsOf` folds. */
const STOP_WORDS = new Set(
  `a o as os um uma uns umas de do da dos das em no na nos nas por pelo pela pelos pelas para com sem sob sobre entre
  ate e ou mas nem que se como quando onde qual quais quem quanto quanta quantos quantas porque pois ao aos
  foi era sao ser esta estao estar ter tem ha seu sua seus suas ele ela eles elas isso isto este esse essa
  aquele aquela lhe me te nao sim ja mais menos muito tambem so
  the an of in on at to for from by with without and or but not is are was were be been has have had do does did
  this that these those it its as if then than what which who whom whose when where why how many much there their`
    .split(/\s+/)
    .map(stem),
);

/** The telling words of `text`: without case, accents and endings, without stop words, in order, repeats kept. */
export function wordsOf(text: string): string[] {
  return foldedWordsOf(text)
    .map(stem)
    .filter((word) => !STOP_WORDS.has(word));
}

/** The telling words of `text` as a search engine takes them: with their endings, each once; all if none is telling. */
export function tellingWordsOf(text: string): string[] {
  const words = [...new Set(foldedWordsOf(text))];
  const telling = words.filter((word) => !STOP_WORDS.has(stem(word)));
  return telling.length > 0 ? telling : words;
}

function foldedWordsOf(text: string): string[] {
  const folded = text
    .normalize('NFD')
    .replace(/\p{M}+/gu, '')
    .toLowerCase();
  return folded.match(/[\p{L}\p{N}]+/gu) ?? [];
}

function stem(word: string): string {
  return word.length > STEM_LENGTH ? word.slice(0, STEM_LENGTH) : word.replace(/(?<=\p{L}{3})s$/u, '');
}
