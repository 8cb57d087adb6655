"""Images to train on and to attack: published sets, the embedded one, and the user's own."""

from multiway.data import corruptions
from multiway.data.arrays import class_numbers, image_set, labelled_images
from multiway.data.catalog import CORRUPTIONS, DATASETS, Dataset, data_directory
from multiway.data.download import fetch
from multiway.data.images import ImageSet, batches, flip, pad_crop, stratified_split, to_float
from multiway.data.inventory import FileCheck, Presence, status, verify
from multiway.data.loading import check_confirmed, load

__all__ = [
    "CORRUPTIONS",
    "DATASETS",
    "Dataset",
    "FileCheck",
    "ImageSet",
    "Presence",
    "batches",
    "check_confirmed",
    "class_numbers",
    "corruptions",
    "data_directory",
    "fetch",
    "flip",
    "image_set",
    "labelled_images",
    "load",
    "pad_crop",
    "status",
    "stratified_split",
    "to_float",
    "verify",
]
